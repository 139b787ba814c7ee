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
// proxy. No request and no response can change the destination.
func (c *Client) dialRoute(route upstreamRoute, timeout time.Duration) (*net.TCPConn, *Error) {
	if route.proxy != nil {
		return c.dialProxy(route, timeout)
	}
	tcp, err := c.dialFunc(route.addr, timeout)
	if err != nil {
		return nil, DialError(route.addr, err)
	}
	return tcp, nil
}

// dialProxy connects to the first address of a proxy that accepts. Each address has
// an equal share of the remaining time.
func (c *Client) dialProxy(route upstreamRoute, timeout time.Duration) (*net.TCPConn, *Error) {
	addrs, by := route.proxy.Addrs, time.Now().Add(timeout)
	last := error(cause.Details{Reason: cause.NoAddress})
	for i, addr := range addrs {
		var tcp *net.TCPConn
		if tcp, last = c.dialFunc(addr, max(1, time.Until(by)/time.Duration(len(addrs)-i))); last == nil {
			return tcp, nil
		}
	}
	return nil, route.egressError(EgressUnreachable, last)
}

// openThroughProxy continues on a connection to the proxy. It adds TLS with the
// proxy if required, then a tunnel and TLS with the router. In plain HTTP the proxy
// takes the requests and resolves their host.
func (c *Client) openThroughProxy(bottom *socket, a *attempt) (net.Conn, *Error) {
	beneath, failure := c.handshakeProxy(bottom, a)
	if failure != nil || a.route.usesAbsoluteForm() {
		return beneath, failure
	}
	tunneled, failure := a.openTunnel(beneath)
	if failure != nil {
		return nil, failure
	}
	bottom.received = false // the bytes so far came from the proxy
	return c.openTop(tunneled, bottom, a)
}

// handshakeProxy adds TLS for a proxy that requires it.
func (c *Client) handshakeProxy(bottom *socket, a *attempt) (net.Conn, *Error) {
	via := a.route.proxy
	if !via.TLS {
		return bottom, nil
	}
	top, failed := c.handshake(bottom, bottom, a, via.egress.proxyVerifier, via.Name)
	if failed != nil {
		e := a.route.egressError(EgressTLS, failed.Err)
		e.ClientStatus = failed.ClientStatus
		return nil, e
	}
	return top, nil
}

// openTunnel requests a tunnel to the router from the proxy.
func (a *attempt) openTunnel(conn net.Conn) (net.Conn, *Error) {
	if err := conn.SetDeadline(earlier(time.Now().Add(a.connectTimeout), a.firstByteBy)); err != nil {
		return nil, a.route.egressError(EgressUnreachable, err)
	}
	tunneled, err := tunnel(conn, a.route.addr, a.route.proxy.Authorization)
	if err == nil {
		return tunneled, nil
	}
	var rejected *rejection
	if errors.As(err, &rejected) {
		return nil, a.route.egressError(rejected.cause, err)
	}
	return nil, a.route.egressError(EgressUnreachable, err)
}

// egressError is an error of the proxy, or of the route to it, that kept the
// request from the ingress.
func (r upstreamRoute) egressError(cause Cause, err error) *Error {
	e := &Error{Cause: cause, Addr: r.addr, EgressProxy: r.proxy.String(), ClientStatus: 502, Err: withoutAddresses(err)}
	if isTimeout(err) {
		e.ClientStatus = 504
	}
	return e
}

// attributeToProxy adds the proxy to an error. In plain HTTP, a connection that
// ends without a response is the proxy's fault: the ingress may never have received
// the request.
func (r upstreamRoute) attributeToProxy(e *Error) *Error {
	if r.proxy == nil {
		return e
	}
	e.EgressProxy = r.proxy.String()
	if r.usesAbsoluteForm() && (e.Cause == ClosedWithoutResponse || e.Cause == Reset) {
		e.Cause = EgressUnreachable
	}
	return e
}

// checkProxyRejection returns an error if the proxy itself answered. The client does
// not get the proxy's page, which describes the cluster's network.
func (x *Relay) checkProxyRejection(route upstreamRoute) *Error {
	if route.proxy == nil || !x.response.isFromProxy(route.usesAbsoluteForm()) {
		return nil
	}
	rejected := x.response.parseProxyRejection(route.proxy.Authorization)
	return &Error{Cause: rejected.cause, Addr: route.addr, EgressProxy: route.proxy.String(), ClientStatus: 502, Err: rejected}
}

// usesAbsoluteForm reports whether the request goes to a proxy in plain HTTP. The
// proxy then resolves the host.
func (r upstreamRoute) usesAbsoluteForm() bool { return r.proxy != nil && r.verifier == nil }

// requestHead returns the head in the form that the route requires.
func (a *attempt) requestHead() ([]byte, *Error) {
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
func (r upstreamRoute) routeCause(cause Cause, status int) Cause {
	switch {
	case cause == Loop && r.usesAbsoluteForm():
		return EgressLoop
	case cause == "" && status == 400 && r.proxyProtocol != ingress.ProxyProtocolOff && r.verifier == nil:
		// With TLS there would be no response, because a PROXY header does not start
		// a handshake.
		return ProxyProtocolUnexpected
	default:
		return cause
	}
}

// withProxyProtocol adds the PROXY protocol version to a handshake error. A router
// that does not expect the header reads it as invalid TLS.
func (r upstreamRoute) withProxyProtocol(e *Error) *Error {
	if r.proxyProtocol != ingress.ProxyProtocolOff && e.Cause == TLSHandshake {
		details := Explain(e.Err)
		details.ProxyHeader = int(r.proxyProtocol)
		e.Err = details
	}
	return e
}

// writeProxyHeader sends the PROXY header, if one is configured.
func (a *attempt) writeProxyHeader(conn net.Conn) *Error {
	if a.route.proxyProtocol == ingress.ProxyProtocolOff {
		return nil
	}
	head := appendProxyHeader(make([]byte, 0, maxProxyHeader), a.route.proxyProtocol, a.request.Client, a.request.VIP)
	if err := conn.SetDeadline(a.firstByteBy); err != nil {
		return ExchangeError(a.route.addr, err, false)
	}
	if _, err := conn.Write(head); err != nil {
		return ExchangeError(a.route.addr, err, false)
	}
	return nil
}
