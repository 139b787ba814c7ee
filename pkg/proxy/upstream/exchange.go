// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// errTimeUsedUp means that the time was used up before a connection attempt.
var errTimeUsedUp = fmt.Errorf("%w: %w", cause.Details{Reason: cause.DeadlinePassed}, os.ErrDeadlineExceeded)

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
	x, _ := c.relays.Get().(*Relay)
	defer func() {
		x.Reset()
		c.relays.Put(x)
	}()

	settings := c.currentSettings()
	current, redirects := r, 0 // the request in its current form
	if r.Redirected {
		current, redirects = r.redirectedToTLS(), 1
	}
	for ; ; redirects++ {
		conn, failure := c.tryAddresses(x, settings, current, redirects > 0)
		if failure != nil {
			return 0, failure.Addr, failure
		}
		addr := conn.route.addr
		if failure := x.checkProxyRejection(conn.route); failure != nil {
			c.discard(conn)
			return 0, addr, failure
		}
		if err := x.frame(r.IsHead); err != nil {
			c.discard(conn)
			return 0, addr, conn.route.attributeToProxy(x.Failure(addr, err))
		}
		cause, follow := x.classifyResponse(r, settings, redirects)
		if follow {
			x.discard()
			c.release(conn, x)
			x.restart()
			if redirects == 0 {
				current = r.redirectedToTLS()
			}
			continue
		}
		x.begin(r.HTTP10)
		err := x.relay(conn, client)
		c.release(conn, x)
		var broken *upstreamReadError
		switch {
		case errors.As(err, &broken):
			err = conn.route.attributeToProxy(x.Failure(addr, broken.error))
		case err == nil:
			err = x.result(conn.route, cause)
		default:
		}
		return x.Status(), addr, err
	}
}

// upstreamReadError marks errors of the upstream while its response is relayed, to
// separate them from those of the client.
type upstreamReadError struct{ error }

// relay sends the response, whose head is complete, to the client. It sends received
// bytes before it waits for more.
func (x *Relay) relay(conn io.Reader, client io.Writer) error {
	for {
		if err := x.Advance(); err != nil {
			return &upstreamReadError{err}
		}
		if output := x.Output(); len(output) > 0 {
			n, err := client.Write(output)
			if x.Sent(n); err != nil {
				x.done = false
				return fmt.Errorf("cannot relay the response to the client: %w", err)
			}
		}
		if x.Done() {
			return nil
		}
		n, err := conn.Read(x.Space())
		x.Received(n)
		if n == 0 && errors.Is(err, io.EOF) {
			err = x.End()
		}
		if n == 0 && err != nil {
			return &upstreamReadError{err}
		}
	}
}

// result returns the cause that a relayed response shows as the error of Exchange.
func (x *Relay) result(route upstreamRoute, cause Cause) error {
	if cause = route.routeCause(cause, x.response.status); cause == "" {
		return nil
	}
	e := &Error{Cause: cause, Addr: route.addr}
	if cause == RedirectElsewhere {
		e.Err = x.response.redirectTarget
	}
	return route.attributeToProxy(e)
}

// tryAddresses tries the addresses in turn until one sends the head of a response.
// The head is then in x. redirected means that a redirect to TLS is followed.
func (c *Client) tryAddresses(x *Relay, settings *activeSettings, r *Request, redirected bool) (*conn, *Error) {
	var first *Error
	addrs := settings.inOrder(r.VIP.Addr(), redirected)
	if r.Failed != nil && !redirected && len(addrs) > 0 && addrs[0] == r.Failed.Addr { // else the settings have changed
		first, addrs = r.Failed, addrs[1:]
	}
	for i, addr := range addrs {
		route := settings.routeTo(addr, r, redirected)
		a := &attempt{route, settings.handshakeSlots(route), settings.connectTimeout, r.Deadline, FirstByteDeadline(r.Deadline, len(addrs)-1-i), r}
		conn, err := c.tryAddress(x, a)
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
		first = &Error{Cause: NoUpstream, ClientStatus: 502}
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

// attempt holds the parameters of an attempt with one address.
type attempt struct {
	route          upstreamRoute
	handshakes     chan struct{} // one element for each handshake in progress with the address
	connectTimeout time.Duration // bounds each step of opening a connection
	deadline       time.Time
	firstByteBy    time.Time // for the first byte of the response
	request        *Request
}

// tryAddress sends the request to one address, on an idle connection if one can
// take it.
func (c *Client) tryAddress(x *Relay, a *attempt) (*conn, *Error) {
	request, failure := a.requestHead()
	if failure != nil {
		return nil, failure
	}
	if idle, failure := c.tryIdle(x, a, request); idle != nil || failure != nil {
		return idle, failure
	}
	fresh, failure := c.openConnection(a)
	if failure != nil {
		return nil, failure
	}
	if err := x.sendAndReadHead(fresh, a, request); err != nil {
		c.discard(fresh)
		return nil, a.route.attributeToProxy(ExchangeError(a.route.addr, err, x.received))
	}
	return fresh, nil
}

// tryIdle sends the request on an idle connection. If none can take it, tryIdle
// returns neither a connection nor an error. If the router has just closed the
// connection, the request may be sent again on a new one: GET and HEAD are
// idempotent (RFC 9110 section 9.2.2).
func (c *Client) tryIdle(x *Relay, a *attempt, request []byte) (*conn, *Error) {
	for now := time.Now(); ; {
		idle := c.reuseIdle(a.route, now)
		if idle == nil {
			return nil, nil
		}
		err := x.sendAndReadHead(idle, a, request)
		if err == nil {
			return idle, nil
		}
		c.discard(idle)
		if x.received || !IsConnectionLost(err) {
			return nil, a.route.attributeToProxy(ExchangeError(a.route.addr, err, x.received))
		}
	}
}

// sendAndReadHead sends the request and reads until the head of the final response is
// complete.
func (x *Relay) sendAndReadHead(conn stream, a *attempt, request []byte) error {
	if err := conn.SetDeadline(a.firstByteBy); err != nil {
		return err
	}
	if _, err := conn.Write(request); err != nil {
		return err
	}
	return x.readHead(conn, a)
}

// stream is the part of a connection that an exchange uses.
type stream interface {
	deadlineReader
	io.Writer
}

// deadlineReader is the part of a connection that reading a head uses.
type deadlineReader interface {
	io.Reader
	SetDeadline(t time.Time) error
}

// readHead reads until the head of the final response is complete. The first byte ends
// the shorter deadline that leaves time for other addresses.
func (x *Relay) readHead(conn deadlineReader, a *attempt) error {
	for {
		first := !x.received
		n, err := conn.Read(x.Space())
		if x.Received(n); n == 0 {
			return err
		}
		if first && a.firstByteBy.Before(a.deadline) {
			if err := conn.SetDeadline(a.deadline); err != nil {
				return err
			}
		}
		if complete, err := x.ParseHead(); complete || err != nil {
			return err
		}
	}
}
