// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// tunnel requests a tunnel to an address from the egress proxy on conn (RFC 9110
// section 9.3.6), before conn's deadline. The result is conn, or a wrapper if bytes
// from beyond the tunnel have already arrived. A rejection by the proxy is a
// *rejection.
func tunnel(conn net.Conn, to netip.AddrPort, authorization ingress.Secret) (net.Conn, error) {
	if _, err := conn.Write(appendConnect(nil, to, authorization)); err != nil {
		return nil, err
	}
	rest, err := readConnectResponse(conn, authorization)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return bufferedConn{conn, io.MultiReader(bytes.NewReader(rest), conn)}, nil
	}
	return conn, nil
}

func appendConnect(dst []byte, to netip.AddrPort, authorization ingress.Secret) []byte {
	dst = to.AppendTo(append(dst, "CONNECT "...))
	dst = to.AppendTo(append(dst, " HTTP/1.1\r\nHost: "...))
	dst = append(dst, "\r\n"...)
	return append(appendAuthorization(dst, authorization), "\r\n"...)
}

func appendAuthorization(dst []byte, authorization ingress.Secret) []byte {
	if authorization == (ingress.Secret{}) {
		return dst
	}
	dst = append(dst, "Proxy-Authorization: "...)
	dst = append(dst, authorization.Reveal()...)
	return append(dst, "\r\n"...)
}

// readConnectResponse reads the head of the response to CONNECT, and returns the bytes
// after it. The framing of a 2xx is ignored (RFC 9110 section 9.3.6). Any other
// response ends the connection.
func readConnectResponse(conn deadlineReader, authorization ingress.Secret) (rest []byte, err error) {
	x := new(Relay)
	if err := x.readHead(conn, &attempt{}); err != nil {
		return nil, err
	}
	if x.response.status > 299 {
		return nil, x.response.parseProxyRejection(authorization)
	}
	return x.input[x.start:x.end], nil
}

type bufferedConn struct {
	net.Conn
	reader io.Reader // the bytes, then Conn
}

// Read implements net.Conn.
func (b bufferedConn) Read(p []byte) (int, error) { return b.reader.Read(p) }

// errNoHost is a request without a host name. Its Host would be the address of this
// proxy, to which an egress proxy must not send it.
var errNoHost = fmt.Errorf("%w", cause.Details{Reason: cause.NoHost})

// errBadHead is a head without the form that pkg/proxy/reqhead writes: origin-form,
// then Host.
var errBadHead = fmt.Errorf("%w", cause.Details{Reason: cause.BadHead})

// appendAbsoluteForm appends a request head in absolute-form, the form for a proxy
// (RFC 9112 section 3.2.2). The target becomes http://host/…, Host has the same
// host, and Proxy-Authorization is added. host has no port; port is the ingress's.
// head is in origin-form, with Host first.
func appendAbsoluteForm(dst, head []byte, host string, port uint16, authorization ingress.Secret) ([]byte, error) {
	if len(host) == 0 {
		return dst, errNoHost
	}
	method, rest, _ := bytes.Cut(head, []byte{' '})
	line, rest, _ := bytes.Cut(rest, []byte("\r\n"))
	old, rest, found := bytes.Cut(rest, []byte("\r\n"))
	if !found || len(line) == 0 || line[0] != '/' || !bytes.HasPrefix(old, []byte("Host: ")) {
		return dst, errBadHead
	}
	dst = append(append(dst, method...), " http://"...)
	dst = appendAuthority(dst, host, port)
	dst = append(append(dst, line...), "\r\nHost: "...)
	dst = append(appendAuthority(dst, host, port), "\r\n"...)
	return append(appendAuthorization(dst, authorization), rest...), nil
}

func appendAuthority(dst []byte, host string, port uint16) []byte {
	dst = append(dst, host...)
	if port == 80 {
		return dst
	}
	return strconv.AppendUint(append(dst, ':'), uint64(port), 10)
}
