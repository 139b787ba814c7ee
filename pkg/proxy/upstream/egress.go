// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// passProxy continues on a connection to the egress proxy, if one is on the route. It adds
// TLS with the proxy if required, then a tunnel. In plain HTTP there is no tunnel: the proxy takes the requests.
func (c *conn) passProxy(ctx context.Context, a *attempt) *Error {
	proxy := a.route.proxy
	if proxy == nil {
		return nil
	}
	if proxy.TLS {
		if failure := c.handshake(ctx, a, a.route.proxyVerifier, proxy.Name); failure != nil {
			failure.Cause = findings.EgressTLS
			return a.route.attributeToProxy(failure)
		}
	}
	if a.route.usesAbsoluteForm() {
		return nil
	}
	rest, failure := a.route.openTunnel(c, a.stepDeadline())
	if failure == nil && len(rest) > 0 { // a TLS server waits for the client
		failure = &Error{
			Cause: findings.IngressTLSHandshake, Addr: a.route.addr, ClientStatus: 502,
			Err: cause.Details{Reason: cause.NotTLS},
		}
	}
	c.socket.received = false // the bytes so far came from the proxy
	return failure
}

// openTunnel requests a tunnel to the ingress from the egress proxy (RFC 9110 section
// 9.3.6). It returns the bytes after the head of the response. The framing of a 2xx is
// ignored. Any other response ends the connection.
func (r *upstreamRoute) openTunnel(conn net.Conn, deadline time.Time) (rest []byte, failure *Error) {
	x, request := new(Relay), connectRequest(r.addr, r.proxy.Authorization)
	bounds := &attempt{deadline: deadline, firstByteBy: deadline}
	if err := x.sendAndReadHead(conn, bounds, request); err != nil {
		return nil, r.egressError(findings.EgressUnreachable, err)
	}
	if x.response.status > 299 {
		return nil, r.rejection(&x.response)
	}
	return x.input[x.start:x.end], nil
}

func connectRequest(to netip.AddrPort, authorization ingress.Secret) []byte {
	return fmt.Appendf(nil, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\n%[2]s\r\n", to, authorizationField(authorization))
}

func authorizationField(authorization ingress.Secret) string {
	if authorization == (ingress.Secret{}) {
		return ""
	}
	return "Proxy-Authorization: " + authorization.Reveal() + "\r\n"
}

// absoluteForm returns a request head in absolute-form, the form for a proxy (RFC 9112 section
// 3.2.2). The target becomes http://host/…, Host names the same host, and Proxy-Authorization
// is added. host contains no port; port is the ingress's. head must look as pkg/proxy/reqhead
// writes it: origin-form, then Host. Without a host, its Host would be the address of this
// proxy, to which an egress proxy must not send it.
func absoluteForm(head []byte, host string, port uint16, authorization ingress.Secret) ([]byte, error) {
	method, rest, _ := bytes.Cut(head, []byte{' '})
	line, rest, _ := bytes.Cut(rest, []byte("\r\n"))
	old, rest, found := bytes.Cut(rest, []byte("\r\n"))
	switch {
	case host == "":
		return nil, cause.Details{Reason: cause.NoHost}
	case !found || len(line) == 0 || line[0] != '/' || !bytes.HasPrefix(old, []byte("Host: ")):
		return nil, cause.Details{Reason: cause.BadHead}
	}
	return fmt.Appendf(nil, "%s http://%[2]s%[3]s\r\nHost: %[2]s\r\n%[4]s%[5]s",
		method, authority(host, port), line, authorizationField(authorization), rest), nil
}

func authority(host string, port uint16) string {
	if port == 80 {
		return host
	}
	return host + ":" + strconv.Itoa(int(port))
}

// egressError is an error of the proxy, or of the route to it, that kept the
// request from the ingress.
func (r *upstreamRoute) egressError(id findings.ID, err error) *Error {
	e := &Error{Cause: id, Addr: r.addr, EgressProxy: r.proxy.String(), ClientStatus: 502, Err: withoutAddresses(err)}
	if cause.IsTimeout(err) {
		e.ClientStatus = 504
	}
	return e
}

// attributeToProxy adds the proxy to an error. In plain HTTP, a connection that
// ends without a response is the proxy's fault: the ingress may never have received
// the request.
func (r *upstreamRoute) attributeToProxy(e *Error) *Error {
	if r.proxy == nil {
		return e
	}
	e.EgressProxy = r.proxy.String()
	unanswered := e.Cause == findings.IngressClosedConnection || e.Cause == findings.IngressResetConnection
	if unanswered && r.usesAbsoluteForm() {
		e.Cause = findings.EgressUnreachable
	}
	return e
}

// rejection returns the parts of a response of the egress proxy itself that an operator
// needs. The client does not get the proxy's page, which describes the cluster's network.
// rejection drops the reason phrase, which can be any text, and an error code that reveals
// the credentials. 407 is about the credentials. Every other status is about what the
// proxy permits or reaches.
func (r *upstreamRoute) rejection(a *response) *Error {
	e, details := r.egressError(findings.EgressDenied, nil), cause.Details{Reason: cause.ProxyAnswer, Number: a.status}
	if a.status == 407 {
		e.Cause = findings.EgressAuth
	}
	// The code of Squid, which adds a number to it, or of RFC 9209.
	code, _, _ := strings.Cut(strings.TrimSpace(a.proxyError()), " ")
	if cause.IsCode(code) && !r.proxy.Authorization.AppearsIn(code) {
		details.Reason, details.Code = cause.ProxyAnswerCode, code
	}
	e.Err = details
	return e
}

// isFromProxy reports whether the proxy itself answered and not the ingress.
// absolute means that the request went to the proxy in plain HTTP.
//
// 407 is a proxy's by definition (RFC 9110 section 15.5.8). An error of Squid contains
// X-Squid-Error (its src/errorpage.cc), even with `via off`. A proxy with RFC 9209 puts an
// error into Proxy-Status. For other proxies Via decides, which a proxy must add to a forwarded
// response (RFC 9110 section 7.6.3). A proxy error without Via was therefore not forwarded,
// unless X-Cache shows a Squid with `via off`. Via alone proves nothing, because Squid adds it
// to its own errors too (all measured with Squid 5.7).
//
// Inside a tunnel only a proxy that intercepts TLS answers itself, for example
// because it rejects the router. The only sign is then a field with the name of the
// error.
func (a *response) isFromProxy(absolute bool) bool {
	switch {
	case absolute && a.status == 407:
		return true
	case a.status < 400, a.loopDetected:
		return false
	case a.proxyError() != "":
		return true
	case !absolute:
		return false
	}
	mayBeProxy := slices.Contains([]int{403, 502, 503, 504}, a.status)
	return mayBeProxy && a.fieldValue("via") == nil && a.fieldValue("x-cache") == nil
}

// proxyError returns the error that a proxy names in a field of its own response;
// empty: none.
func (a *response) proxyError() string {
	if squid := a.fieldValue("x-squid-error"); len(squid) > 0 {
		return string(squid)
	}
	for rest := a.buf[a.fields.from:a.fields.to]; len(rest) > 0; {
		var name, value []byte
		name, value, rest = httpfield.Next(rest)
		if found := statusError(string(value)); found != "" && httpfield.EqualFold(name, "proxy-status") {
			return found
		}
	}
	return ""
}

// statusError returns the error of a Proxy-Status field (RFC 9209 section 2.1.1), except for
// fields of this service. A quoted text may contain what looks like an error. Nevertheless,
// such a field comes from a proxy that reports an error.
func statusError(list string) string {
	for member := range strings.SplitSeq(list, ",") {
		proxyName, parameters, _ := strings.Cut(member, ";")
		if strings.EqualFold(strings.TrimSpace(proxyName), httpfield.ServiceName) {
			continue
		}
		for p := range strings.SplitSeq(parameters, ";") {
			if value, ok := strings.CutPrefix(strings.TrimSpace(p), "error="); ok && value != "" {
				return value
			}
		}
	}
	return ""
}

// fieldValue returns the value of the first field with a name, in lower case; nil:
// none. The head of the response must be complete and still in its buffer.
func (a *response) fieldValue(name string) []byte {
	return httpfield.Value(a.buf[a.fields.from:a.fields.to], name)
}
