// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync"
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
	HTTP10   bool   // the client does not support chunks

	// What the caller has done already, by a [Direct] route.
	Failed     *Error // at the first address
	Redirected bool   // it has received a redirect that is followed
}

// attempt holds the parameters of an attempt with one address.
type attempt struct {
	route          *upstreamRoute
	connectTimeout time.Duration // bounds each step of opening a connection
	deadline       time.Time
	firstByteBy    time.Time // for the first byte of the response
	request        *Request
}

//nolint:gochecknoglobals // memory between exchanges
var relays = sync.Pool{New: func() any { return new(Relay) }}

// Exchange forwards r to the ingress and relays the response to client, all before
// the deadline. It tries the addresses of the VIP's family first, then the others.
// It tries the next address only while no byte of a response has arrived.
//
// It returns the relayed status, or 0 if nothing was relayed, and the address that
// was tried last, or the zero value. The error is an *Error, also for a relayed
// response with a cause, or the error of client.Write. The client gets the parts of
// the response as they arrive, but the head not before the first byte of the body.
// Nothing is written after an error.
func (c *Client) Exchange(r *Request, client io.Writer) (status int, from netip.AddrPort, err error) {
	x, settings := relays.Get().(*Relay), c.active.Load() //nolint:forcetypeassert // of relays.New
	defer relays.Put(x)
	defer x.Reset()
	current, redirects := r, 0 // the request in its current form
	if r.Redirected {
		current, redirects = r.redirectedToTLS(), 1
	}
	for ; ; redirects++ {
		conn, failure := c.tryAddresses(x, settings, current, redirects > 0)
		if failure != nil {
			return 0, failure.Addr, failure
		}
		route := conn.route
		if route.proxy != nil && x.response.isFromProxy(route.usesAbsoluteForm()) {
			conn.abort()
			return 0, route.addr, route.rejection(&x.response)
		}
		cause, follow, err := x.begin(r, settings, redirects)
		switch {
		case err != nil:
			conn.abort()
			return 0, route.addr, route.attributeToProxy(x.Failure(route.addr, err))
		case follow:
			c.release(settings, conn, x)
			x.Reset()
			if redirects == 0 {
				current = r.redirectedToTLS()
			}
			continue
		}
		clientErr, err := x.relay(conn, client)
		c.release(settings, conn, x)
		switch {
		case clientErr != nil:
			err = fmt.Errorf("cannot relay the response to the client: %w", clientErr)
		case err != nil:
			err = route.attributeToProxy(x.Failure(route.addr, err))
		default:
			err = x.result(route, cause)
		}
		return x.Status(), route.addr, err
	}
}

// release ends an exchange. It keeps the connection for the next one if that is possible.
func (c *Client) release(settings *activeSettings, conn *conn, x *Relay) {
	if x.Reusable() {
		settings.idle.put(conn, c.maxIdleTime)
	} else {
		conn.abort()
	}
}

// relay sends the response, whose head is complete, to the client. It sends received
// bytes before it waits for more.
func (x *Relay) relay(conn io.Reader, client io.Writer) (clientErr, err error) {
	for {
		if err := x.Advance(); err != nil {
			return nil, err
		}
		if output := x.Output(); len(output) > 0 {
			n, err := client.Write(output)
			if x.Sent(n); err != nil {
				x.done = false
				return err, nil
			}
		}
		if x.Done() {
			return nil, nil
		}
		n, err := conn.Read(x.Space())
		x.Received(n)
		if n == 0 && errors.Is(err, io.EOF) {
			err = x.End()
		}
		if n == 0 && err != nil {
			return nil, err
		}
	}
}

// result returns the cause that a relayed response shows as the error of Exchange. It
// replaces the cause by a more specific one for this route.
func (x *Relay) result(route *upstreamRoute, cause findings.ID) error {
	switch {
	case cause == findings.RouteLoop && route.usesAbsoluteForm():
		cause = findings.EgressLoop
	case cause == "" && x.response.status == 400 && route.proxyProtocol != ingress.ProxyProtocolOff && route.verifier == nil:
		// With TLS there would be no response, because a PROXY header does not start
		// a handshake.
		cause = findings.IngressPROXYProtocol
	case cause == "":
		return nil
	}
	e := &Error{Cause: cause, Addr: route.addr}
	if cause == findings.RouteRedirectsElsewhere {
		e.Err = x.response.redirectTarget
	}
	return route.attributeToProxy(e)
}

// tryAddresses tries the addresses in turn until one sends the head of a response.
// The head is then in x. redirected means that a redirect to TLS is followed.
func (c *Client) tryAddresses(x *Relay, settings *activeSettings, r *Request, redirected bool) (*conn, *Error) {
	var first *Error
	routes := settings.inOrder(r.VIP.Addr(), redirected)
	if r.Failed != nil && !redirected && len(routes) > 0 && routes[0].addr == r.Failed.Addr { // else the settings have changed
		first, routes = r.Failed, routes[1:]
	}
	for i, route := range routes {
		by := FirstByteDeadline(r.Deadline, len(routes)-1-i)
		conn, err := c.tryAddress(x, settings, &attempt{route, settings.ConnectTimeout, r.Deadline, by, r})
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
func (c *Client) tryAddress(x *Relay, settings *activeSettings, a *attempt) (*conn, *Error) {
	head, serverName := a.request.Head, "" // of TLS with the router
	if a.route.usesAbsoluteForm() {
		var err error
		if head, err = absoluteForm(head, a.request.Host, a.route.addr.Port(), a.route.proxy.Authorization); err != nil {
			return nil, a.route.egressError(findings.EgressDenied, err)
		}
	}
	if a.route.verifier != nil {
		serverName = a.request.Host
	}
	for conn := settings.idle.take(a.route, serverName); ; conn = nil {
		if conn == nil {
			var failure *Error
			if conn, failure = c.connect(a); failure != nil {
				return nil, failure
			}
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
		if complete, err := x.ParseHead(); complete || err != nil {
			return err
		}
	}
}
