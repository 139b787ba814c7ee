// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"net"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// approach opens the TCP connection that a way begins with: to the ingress or to the
// egress proxy, and to nothing else whatever a request or an answer says.
func (c *Client) approach(w way, timeout time.Duration) (*net.TCPConn, *Error) {
	if w.via != nil {
		return c.approachProxy(w, timeout)
	}
	tcp, err := c.connect(w.addr, timeout)
	if err != nil {
		return nil, dialError(w.addr, err)
	}
	return tcp, nil
}

// approachProxy takes the first of a proxy's addresses that takes a connection. Each
// has an even share of the time that is left.
func (c *Client) approachProxy(w way, timeout time.Duration) (*net.TCPConn, *Error) {
	addrs, by := w.via.Addrs, time.Now().Add(timeout)
	last := error(cause.Why{Reason: cause.NoAddress})
	for i, addr := range addrs {
		var tcp *net.TCPConn
		if tcp, last = c.connect(addr, max(1, time.Until(by)/time.Duration(len(addrs)-i))); last == nil {
			return tcp, nil
		}
	}
	return nil, w.egressError(EgressUnreachable, last)
}

// climbThrough goes on from a connection to the proxy: TLS with the proxy itself if
// it wants that, then a tunnel and TLS with the router. In plain HTTP the proxy takes
// the requests, and finds the ingress by what it is asked for.
func (c *Client) climbThrough(bottom *socket, a attempt) (stream, *Error) {
	beneath, top, failure := c.greetProxy(bottom, a)
	if failure != nil {
		return nil, failure
	}
	if !a.way.absolute() {
		return c.climbTunnel(beneath, bottom, a)
	}
	if top != nil {
		return top, nil
	}
	s, err := newPlain(bottom.TCPConn)
	if err != nil {
		return nil, dialError(a.way.addr, err)
	}
	return s, nil
}

// greetProxy speaks TLS with a proxy that wants it. Top is nil for one that does not.
func (c *Client) greetProxy(bottom *socket, a attempt) (beneath net.Conn, top *secure, failed *Error) {
	via := a.way.via
	if !via.Secure {
		return bottom, nil, nil
	}
	top, failed = c.handshake(bottom, bottom, a, via.egress.proxies, via.Name)
	if failed != nil {
		e := a.way.egressError(EgressTLS, failed.Err)
		e.Status = failed.Status
		return nil, nil, e
	}
	return top.Conn, top, nil
}

// climbTunnel asks the proxy for a way to the router, and goes on with that.
func (c *Client) climbTunnel(beneath net.Conn, bottom *socket, a attempt) (stream, *Error) {
	through, failure := a.tunnel(beneath)
	if failure != nil {
		return nil, failure
	}
	bottom.heard = false // what was, was the proxy
	return c.climbSecure(through, bottom, a)
}

// tunnel asks the proxy for a way to the router.
func (a attempt) tunnel(conn net.Conn) (net.Conn, *Error) {
	if err := conn.SetDeadline(earlier(time.Now().Add(a.connect), a.first)); err != nil {
		return nil, a.way.egressError(EgressUnreachable, err)
	}
	through, err := tunnel(conn, a.way.addr, a.way.via.Authorization)
	if err == nil {
		return through, nil
	}
	var no *proxyRefusal
	if errors.As(err, &no) {
		return nil, a.way.egressError(no.cause(), err)
	}
	return nil, a.way.egressError(EgressUnreachable, err)
}

// egressError is what the proxy, or the way to it, has kept from the ingress.
func (w way) egressError(cause Cause, err error) *Error {
	e := &Error{Cause: cause, Addr: w.addr, Proxy: w.via.String(), Status: 502, Err: cleanError(err)}
	if isTimeout(err) {
		e.Status = 504
	}
	return e
}

// blame puts what went wrong while a proxy was asked in plain HTTP down to it:
// what it does not answer, the ingress may never have been asked.
func (w way) blame(e *Error) *Error {
	if w.via == nil {
		return e
	}
	e.Proxy = w.via.String()
	if w.absolute() && (e.Cause == ClosedWithoutAnswer || e.Cause == Reset) {
		e.Cause = EgressUnreachable
	}
	return e
}

// refused is what the proxy has answered by itself. Its page is not passed on: it
// tells of the cluster's network.
func (x *exchange) refused(w way) *Error {
	if w.via == nil || !x.answer.byProxy(w.absolute()) {
		return nil
	}
	no := x.answer.refusal(w.via.Authorization)
	return &Error{Cause: no.cause(), Addr: w.addr, Proxy: w.via.String(), Status: 502, Err: no}
}

// absolute reports whether the proxy is asked in plain HTTP, for what it finds
// itself.
func (w way) absolute() bool { return w.via != nil && w.verifier == nil }

// head is the request as the way takes it.
func (a attempt) head() ([]byte, *Error) {
	if !a.way.absolute() {
		return a.request.Head, nil
	}
	head, err := appendAbsolute(nil, a.request.Head, a.request.Host, a.way.addr.Port(), a.way.via.Authorization)
	if err != nil {
		return nil, a.way.egressError(EgressDenied, err)
	}
	return head, nil
}

// finding is what an answer means on this way, where a router's cause means more
// than it does elsewhere.
func (w way) finding(cause Cause, status int) Cause {
	switch {
	case cause == Loop && w.absolute():
		return EgressLoop
	case cause == "" && status == 400 && w.header != ProxyProtocolOff && w.verifier == nil:
		// By TLS there would be no answer: the header is not the beginning of a handshake.
		return ProxyProtocolUnexpected
	default:
		return cause
	}
}

// afterHeader says of a handshake that has failed what may be the reason: a router that
// does not expect a header takes it for bad TLS.
func (w way) afterHeader(e *Error) *Error {
	if w.header != ProxyProtocolOff && e.Cause == TLSHandshake {
		why := Why(e.Err)
		why.Header = int(w.header)
		e.Err = why
	}
	return e
}

// begin tells the router whose connection it is, where it wants to know.
func (a attempt) begin(conn net.Conn) *Error {
	if a.way.header == ProxyProtocolOff {
		return nil
	}
	head := appendProxyHeader(make([]byte, 0, maxProxyHead), a.way.header, a.request.Client, a.request.VIP)
	if err := conn.SetDeadline(a.first); err != nil {
		return talkError(a.way.addr, err, false)
	}
	if _, err := conn.Write(head); err != nil {
		return talkError(a.way.addr, err, false)
	}
	return nil
}
