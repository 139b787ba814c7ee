// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// Request is one challenge that is forwarded. The memory that it refers to does not
// change until Exchange returns.
type Request struct {
	Deadline time.Time
	VIP      netip.AddrPort // destination of the client before the redirect; addresses of its family are tried first
	Client   netip.AddrPort
	Head     []byte // one complete head of a GET or HEAD, in origin-form
	Host     string // in canonical form, without a port; empty if the client sent none
	Target   []byte // as in Head
	IsHead   bool   // the method is HEAD

	// These fields tell what the caller already did, by a [Direct] route.
	Failed     *Error // at the first address
	Redirected bool   // it received a redirect that is followed

	// Repeated means that the caller sends the request again, because the response on a kept
	// connection may be stale. A new connection carries it, and kept ones are closed.
	Repeated bool
}

// attempt holds the parameters of an attempt with one address.
type attempt struct {
	route          *upstreamRoute
	connectTimeout time.Duration // bounds each step of opening a connection
	deadline       time.Time
	firstByteBy    time.Time // for the first byte of the response
	request        *Request
}

// Exchange forwards r to the ingress, all before the deadline and the end of ctx. It tries the addresses of the
// VIP's family first, then the others. It tries the next address only while no byte of a
// response has arrived.
//
// It returns the address that was tried last, or the zero value. The complete response for the
// client is in x, unless the error sets a ClientStatus.
func (c *Client) Exchange(ctx context.Context, r *Request, x *Relay) (from netip.AddrPort, failure *Error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	settings, redirected := c.active.Load(), r.Redirected
	for {
		current := r // in its current form
		if redirected {
			current = r.redirectedToTLS()
		}
		conn, failure := c.tryAddresses(ctx, x, settings, current, redirected)
		if failure != nil {
			return failure.Addr, failure
		}
		x.kept = conn.kept
		route := conn.route
		if route.proxy != nil && x.response.isFromProxy(route.usesAbsoluteForm()) {
			conn.abort()
			return route.addr, route.rejection(&x.response)
		}
		follow, err := x.begin(r, settings, redirected)
		if follow {
			conn.abort()
			x.Reset()
			redirected = true
			continue
		}
		if err == nil {
			err = x.readBody(conn)
		}
		c.release(settings, conn, x)
		if err != nil {
			return route.addr, route.attributeToProxy(ExchangeError(route.addr, err, x.received))
		}
		return route.addr, x.result(route)
	}
}

// release ends an exchange. It keeps the connection for the next one if that is possible.
func (c *Client) release(settings *activeSettings, conn *conn, x *Relay) {
	if x.Reusable() && conn.closeWith(c.ctx) {
		settings.idle.put(conn, c.maxIdleTime)
	} else {
		conn.abort()
	}
}

// readBody reads the body of a response with a complete head.
func (x *Relay) readBody(conn io.Reader) error {
	for {
		if err := x.advance(); err != nil || x.done {
			return err
		}
		n, err := conn.Read(x.Space())
		x.Received(n)
		if n == 0 && errors.Is(err, io.EOF) {
			return x.End()
		}
		if n == 0 && err != nil {
			return err
		}
	}
}

// result returns the cause that a complete response shows, or nil. It replaces the cause by a
// more specific one for this route.
func (x *Relay) result(route *upstreamRoute) *Error {
	id := x.shown
	switch {
	case id == findings.RouteLoop && route.usesAbsoluteForm():
		id = findings.EgressLoop
	case id == "" && x.response.status == 400 && route.proxyProtocol != ingress.ProxyProtocolOff && route.verifier == nil:
		// With TLS there would be no response, because a PROXY header does not start
		// a handshake.
		id = findings.IngressPROXYProtocol
	case id == "":
		return nil
	}
	e := &Error{Cause: id, Addr: route.addr}
	if id == findings.RouteRedirectsElsewhere {
		e.Err = x.response.redirectTarget
	}
	return route.attributeToProxy(e)
}

// tryAddresses tries the addresses in turn until one sends the head of a response.
// The head is then in x. redirected means that a redirect to TLS is followed.
func (c *Client) tryAddresses(
	ctx context.Context, x *Relay, settings *activeSettings, r *Request, redirected bool,
) (*conn, *Error) {
	var first *Error
	routes := settings.inOrder(r.VIP.Addr(), redirected)
	// With another first address, the settings changed.
	if r.Failed != nil && !redirected && len(routes) > 0 && routes[0].addr == r.Failed.Addr {
		first, routes = r.Failed, routes[1:]
	}
	for i, route := range routes {
		firstByteBy := FirstByteDeadline(r.Deadline, len(routes)-1-i)
		conn, err := c.tryAddress(ctx, x, settings, &attempt{route, settings.ConnectTimeout, r.Deadline, firstByteBy, r})
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = err
		} else {
			first.Others = append(first.Others, err)
		}
		if x.received {
			return nil, first
		}
	}
	if first == nil {
		first = &Error{Cause: findings.IngressNoAddress, ClientStatus: 502}
	}
	return nil, first
}

// FirstByteDeadline bounds the wait for the first byte from one address. While
// other addresses remain, it leaves a quarter of the time for them.
func FirstByteDeadline(deadline time.Time, others int) time.Time {
	if others == 0 {
		return deadline
	}
	return deadline.Add(-time.Until(deadline) / 4)
}

// tryAddress sends the request to one address, on an idle connection if one can take it. If
// an idle connection is lost, the request is sent again on a new one: GET and HEAD are
// idempotent (RFC 9110 section 9.2.2).
func (c *Client) tryAddress(ctx context.Context, x *Relay, settings *activeSettings, a *attempt) (*conn, *Error) {
	head := a.request.Head
	if a.route.usesAbsoluteForm() {
		var err error
		if head, err = absoluteForm(head, a.request.Host, a.route.addr.Port(), a.route.proxy.Authorization); err != nil {
			return nil, a.route.egressError(findings.EgressDenied, err)
		}
	}
	var conn *conn
	if a.request.Repeated {
		settings.idle.drop(a.route)
	} else {
		conn = settings.idle.take(a.route, a.request.Host)
	}
	for ; ; conn = nil {
		if conn == nil {
			var failure *Error
			if conn, failure = c.connect(ctx, a); failure != nil {
				return nil, failure
			}
		} else {
			conn.closeWith(ctx)
		}
		err := x.sendAndReadHead(conn, a, head)
		if err == nil {
			return conn, nil
		}
		conn.abort()
		if !conn.kept || x.received || !IsRepeatable(err) {
			return nil, a.route.attributeToProxy(ExchangeError(a.route.addr, err, x.received))
		}
	}
}

// sendAndReadHead sends the request and reads until the head of the final response is
// complete. The first byte ends the shorter deadline that leaves time for other addresses.
func (x *Relay) sendAndReadHead(conn net.Conn, a *attempt, request []byte) error {
	_ = conn.SetDeadline(a.firstByteBy) // on a closed connection, Write fails
	if _, err := conn.Write(request); err != nil {
		return err
	}
	runtime.Gosched() // under load, the response may arrive meanwhile
	for {
		first := !x.received
		n, err := conn.Read(x.Space())
		if x.Received(n); n == 0 {
			return err
		}
		if first && a.firstByteBy.Before(a.deadline) {
			_ = conn.SetDeadline(a.deadline) // on a closed connection, Read fails
		}
		if complete, err := x.parseHead(); complete || err != nil {
			return err
		}
	}
}
