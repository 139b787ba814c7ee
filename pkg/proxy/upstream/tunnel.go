// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// tunnel requests a tunnel to an address from the egress proxy on conn (RFC 9110
// section 9.3.6), before conn's deadline. The result is conn, or a wrapper if bytes
// from beyond the tunnel have already arrived. A refusal by the proxy is a
// *proxyRefusal.
func tunnel(conn net.Conn, to netip.AddrPort, authorization ingress.Secret) (net.Conn, error) {
	if _, err := conn.Write(appendConnect(nil, to, authorization)); err != nil {
		return nil, err
	}
	rest, err := readConnectResponse(conn, authorization)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return &bufferedConn{Conn: conn, buffered: rest}, nil
	}
	return conn, nil
}

// appendConnect appends the request for a tunnel.
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
func readConnectResponse(conn io.Reader, authorization ingress.Secret) (rest []byte, err error) {
	var (
		a       response
		buf     = make([]byte, firstReadSize)
		end     int
		interim int
	)
	for {
		n, err := a.parse(buf[:end])
		switch {
		case err != nil:
			return nil, err
		case n == 0:
			if buf, end, err = readMoreHead(conn, buf, end); err != nil {
				return nil, err
			}
		case a.status == 101:
			return nil, malformed(cause.SwitchingProtocols)
		case a.isInterim():
			if interim++; interim > maxInterim {
				return nil, malformed(cause.TooManyInterim)
			}
			end = copy(buf, buf[n:end])
			a = response{}
		case a.status > 299:
			return nil, a.parseProxyRefusal(authorization)
		default:
			return buf[n:end], nil
		}
	}
}

// readMoreHead appends received bytes to buf, which grows to at most maxResponseHead.
func readMoreHead(conn io.Reader, buf []byte, end int) ([]byte, int, error) {
	if end == maxResponseHead {
		return nil, 0, malformed(cause.HeadTooLong)
	}
	if end == len(buf) {
		buf = append(buf, make([]byte, min(len(buf), maxResponseHead-len(buf)))...)
	}
	n, err := conn.Read(buf[end:])
	if n > 0 {
		return buf, end + n, nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return nil, 0, fmt.Errorf("cannot read the response to CONNECT: %w", err)
}

// bufferedConn is a connection with bytes that were already read.
type bufferedConn struct {
	net.Conn
	buffered []byte
}

// Read returns the buffered bytes first.
func (b *bufferedConn) Read(p []byte) (int, error) {
	if len(b.buffered) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.buffered)
	if b.buffered = b.buffered[n:]; len(b.buffered) == 0 {
		b.buffered = nil
	}
	return n, nil
}
