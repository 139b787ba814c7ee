// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"net"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// dialRoute opens the TCP connection that a way begins with: to the ingress or to the
// egress proxy, and to nothing else whatever a request or an answer says.
func (c *Client) dialRoute(w upstreamRoute, timeout time.Duration) (*net.TCPConn, *Error) {
	if w.proxy != nil {
		return c.dialProxy(w, timeout)
	}
	tcp, err := c.dialFunc(w.addr, timeout)
	if err != nil {
		return nil, dialError(w.addr, err)
	}
	return tcp, nil
}

// dialProxy takes the first of a proxy's addresses that takes a connection. Each
// has an even share of the time that is left.
func (c *Client) dialProxy(w upstreamRoute, timeout time.Duration) (*net.TCPConn, *Error) {
	addrs, by := w.proxy.Addrs, time.Now().Add(timeout)
	last := error(cause.Details{Reason: cause.NoAddress})
	for i, addr := range addrs {
		var tcp *net.TCPConn
		if tcp, last = c.dialFunc(addr, max(1, time.Until(by)/time.Duration(len(addrs)-i))); last == nil {
			return tcp, nil
		}
	}
	return nil, w.egressError(EgressUnreachable, last)
}

// openThroughProxy goes on from a connection to the proxy: TLS with the proxy itself if
// it wants that, then a tunnel and TLS with the router. In plain HTTP the proxy takes
// the requests, and finds the ingress by what it is asked for.
func (c *Client) openThroughProxy(bottom *tlsSocket, a attempt) (stream, *Error) {
	beneath, top, failure := c.handshakeProxy(bottom, a)
	if failure != nil {
		return nil, failure
	}
	if !a.route.usesAbsoluteForm() {
		return c.openTunneled(beneath, bottom, a)
	}
	if top != nil {
		return top, nil
	}
	s, err := newPlainStream(bottom.TCPConn)
	if err != nil {
		return nil, dialError(a.route.addr, err)
	}
	return s, nil
}

// handshakeProxy speaks TLS with a proxy that wants it. Top is nil for one that does not.
func (c *Client) handshakeProxy(bottom *tlsSocket, a attempt) (beneath net.Conn, top *tlsStream, failed *Error) {
	via := a.route.proxy
	if !via.TLS {
		return bottom, nil, nil
	}
	top, failed = c.handshake(bottom, bottom, a, via.egress.proxyVerifier, via.Name)
	if failed != nil {
		e := a.route.egressError(EgressTLS, failed.Err)
		e.ClientStatus = failed.ClientStatus
		return nil, nil, e
	}
	return top.Conn, top, nil
}

// openTunneled asks the proxy for a way to the router, and goes on with that.
func (c *Client) openTunneled(beneath net.Conn, bottom *tlsSocket, a attempt) (stream, *Error) {
	through, failure := a.openTunnel(beneath)
	if failure != nil {
		return nil, failure
	}
	bottom.received = false // what was, was the proxy
	return c.openTLS(through, bottom, a)
}

// openTunnel asks the proxy for a way to the router.
func (a attempt) openTunnel(conn net.Conn) (net.Conn, *Error) {
	if err := conn.SetDeadline(earlier(time.Now().Add(a.connectTimeout), a.firstByteBy)); err != nil {
		return nil, a.route.egressError(EgressUnreachable, err)
	}
	through, err := tunnel(conn, a.route.addr, a.route.proxy.Authorization)
	if err == nil {
		return through, nil
	}
	var no *proxyRefusal
	if errors.As(err, &no) {
		return nil, a.route.egressError(no.cause(), err)
	}
	return nil, a.route.egressError(EgressUnreachable, err)
}

// egressError is what the proxy, or the way to it, has kept from the ingress.
func (w upstreamRoute) egressError(cause Cause, err error) *Error {
	e := &Error{Cause: cause, Addr: w.addr, EgressProxy: w.proxy.String(), ClientStatus: 502, Err: withoutAddresses(err)}
	if isTimeout(err) {
		e.ClientStatus = 504
	}
	return e
}

// attributeToProxy puts what went wrong while a proxy was asked in plain HTTP down to it:
// what it does not answer, the ingress may never have been asked.
func (w upstreamRoute) attributeToProxy(e *Error) *Error {
	if w.proxy == nil {
		return e
	}
	e.EgressProxy = w.proxy.String()
	if w.usesAbsoluteForm() && (e.Cause == ClosedWithoutAnswer || e.Cause == Reset) {
		e.Cause = EgressUnreachable
	}
	return e
}

// checkProxyRefusal is what the proxy has answered by itself. Its page is not passed on: it
// tells of the cluster's network.
func (x *exchange) checkProxyRefusal(w upstreamRoute) *Error {
	if w.proxy == nil || !x.answer.isFromProxy(w.usesAbsoluteForm()) {
		return nil
	}
	no := x.answer.parseProxyRefusal(w.proxy.Authorization)
	return &Error{Cause: no.cause(), Addr: w.addr, EgressProxy: w.proxy.String(), ClientStatus: 502, Err: no}
}

// usesAbsoluteForm reports whether the proxy is asked in plain HTTP, for what it finds
// itself.
func (w upstreamRoute) usesAbsoluteForm() bool { return w.proxy != nil && w.verifier == nil }

// requestHead is the request as the way takes it.
func (a attempt) requestHead() ([]byte, *Error) {
	if !a.route.usesAbsoluteForm() {
		return a.request.Head, nil
	}
	head, err := appendAbsoluteForm(nil, a.request.Head, a.request.Host, a.route.addr.Port(), a.route.proxy.Authorization)
	if err != nil {
		return nil, a.route.egressError(EgressDenied, err)
	}
	return head, nil
}

// routeCause is what an answer means on this way, where a router's cause means more
// than it does elsewhere.
func (w upstreamRoute) routeCause(cause Cause, status int) Cause {
	switch {
	case cause == Loop && w.usesAbsoluteForm():
		return EgressLoop
	case cause == "" && status == 400 && w.proxyProtocol != ProxyProtocolOff && w.verifier == nil:
		// By TLS there would be no answer: the header is not the beginning of a handshake.
		return ProxyProtocolUnexpected
	default:
		return cause
	}
}

// withProxyProtocol says of a handshake that has failed what may be the reason: a router that
// does not expect a header takes it for bad TLS.
func (w upstreamRoute) withProxyProtocol(e *Error) *Error {
	if w.proxyProtocol != ProxyProtocolOff && e.Cause == TLSHandshake {
		why := Explain(e.Err)
		why.ProxyHeader = int(w.proxyProtocol)
		e.Err = why
	}
	return e
}

// writeRequest tells the router whose connection it is, where it wants to know.
func (a attempt) writeProxyHeader(conn net.Conn) *Error {
	if a.route.proxyProtocol == ProxyProtocolOff {
		return nil
	}
	head := appendProxyHeader(make([]byte, 0, maxProxyHeader), a.route.proxyProtocol, a.request.Client, a.request.VIP)
	if err := conn.SetDeadline(a.firstByteBy); err != nil {
		return exchangeError(a.route.addr, err, false)
	}
	if _, err := conn.Write(head); err != nil {
		return exchangeError(a.route.addr, err, false)
	}
	return nil
}
