// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"net"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// dialRoute opens the TCP connection of a route: to the ingress or to the egress
// proxy. No request and no answer can change the destination.
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

// dialProxy connects to the first address of a proxy that accepts. Each address has
// an equal share of the remaining time.
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

// openThroughProxy continues on a connection to the proxy. It adds TLS with the
// proxy if required, then a tunnel and TLS with the router. In plain HTTP the proxy
// takes the requests and resolves their host.
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

// handshakeProxy adds TLS for a proxy that requires it. Otherwise top is nil.
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

// openTunneled opens a tunnel to the router and TLS inside it.
func (c *Client) openTunneled(beneath net.Conn, bottom *tlsSocket, a attempt) (stream, *Error) {
	through, failure := a.openTunnel(beneath)
	if failure != nil {
		return nil, failure
	}
	bottom.received = false // the bytes so far came from the proxy
	return c.openTLS(through, bottom, a)
}

// openTunnel requests a tunnel to the router from the proxy.
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

// egressError is an error of the proxy, or of the route to it, that kept the
// request from the ingress.
func (w upstreamRoute) egressError(cause Cause, err error) *Error {
	e := &Error{Cause: cause, Addr: w.addr, EgressProxy: w.proxy.String(), ClientStatus: 502, Err: withoutAddresses(err)}
	if isTimeout(err) {
		e.ClientStatus = 504
	}
	return e
}

// attributeToProxy adds the proxy to an error. In plain HTTP, a connection that
// ends without an answer is the proxy's fault: the ingress may never have received
// the request.
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

// checkProxyRefusal returns an error if the proxy itself answered. The client does
// not get the proxy's page, which describes the cluster's network.
func (x *exchange) checkProxyRefusal(w upstreamRoute) *Error {
	if w.proxy == nil || !x.answer.isFromProxy(w.usesAbsoluteForm()) {
		return nil
	}
	no := x.answer.parseProxyRefusal(w.proxy.Authorization)
	return &Error{Cause: no.cause(), Addr: w.addr, EgressProxy: w.proxy.String(), ClientStatus: 502, Err: no}
}

// usesAbsoluteForm reports whether the request goes to a proxy in plain HTTP. The
// proxy then resolves the host.
func (w upstreamRoute) usesAbsoluteForm() bool { return w.proxy != nil && w.verifier == nil }

// requestHead returns the head in the form that the route requires.
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

// routeCause replaces a cause by a more specific one for this route.
func (w upstreamRoute) routeCause(cause Cause, status int) Cause {
	switch {
	case cause == Loop && w.usesAbsoluteForm():
		return EgressLoop
	case cause == "" && status == 400 && w.proxyProtocol != ingress.ProxyProtocolOff && w.verifier == nil:
		// With TLS there would be no answer, because a PROXY header does not start
		// a handshake.
		return ProxyProtocolUnexpected
	default:
		return cause
	}
}

// withProxyProtocol adds the PROXY protocol version to a handshake error. A router
// that does not expect the header reads it as invalid TLS.
func (w upstreamRoute) withProxyProtocol(e *Error) *Error {
	if w.proxyProtocol != ingress.ProxyProtocolOff && e.Cause == TLSHandshake {
		why := Explain(e.Err)
		why.ProxyHeader = int(w.proxyProtocol)
		e.Err = why
	}
	return e
}

// writeProxyHeader sends the PROXY header, if one is configured.
func (a attempt) writeProxyHeader(conn net.Conn) *Error {
	if a.route.proxyProtocol == ingress.ProxyProtocolOff {
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
