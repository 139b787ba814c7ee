// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"io"
	"net/netip"
	"time"
)

const (
	// firstReadSize is the size of the first read buffer. The response of a solver
	// fits. An exchange that waits does not occupy more.
	firstReadSize = 1 << 10
	// relayBufferSize is the buffer in which a body is relayed.
	relayBufferSize = 4 << 10
)

// exchange is the working memory of one challenge, which is reused for the next.
type exchange struct {
	input      []byte // its whole length can be read into
	start, end int    // the part of input that was read and not used yet
	received   bool   // a byte of the response has arrived
	output     []byte // the next bytes for the client
	sent       bool   // something was written to the client
	response   response
	attempt    attempt // the current one
}

func newExchange() *exchange { return &exchange{} }

// reset clears the exchange and releases large buffers.
func (x *exchange) reset() {
	in, out := x.input, x.output[:0]
	if len(in) > firstReadSize {
		in = nil
	}
	if cap(out) > 2*firstReadSize {
		out = nil
	}
	*x = exchange{input: in, output: out}
}

// resetResponse drops the response, of which nothing was sent.
func (x *exchange) resetResponse() {
	x.start, x.end, x.received, x.response = 0, 0, false, response{}
}

// resizeInput makes x.input size bytes long and moves the unused bytes to its
// beginning. They must fit.
func (x *exchange) resizeInput(size int) {
	unused := x.input[x.start:x.end]
	if len(x.input) != size {
		x.input = make([]byte, size)
	}
	x.start, x.end = 0, copy(x.input, unused)
}

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
	x, _ := c.exchangePool.Get().(*exchange)
	defer func() {
		x.reset()
		c.exchangePool.Put(x)
	}()

	settings := c.currentSettings()
	current := r // the request in its current form
	for redirects := 0; ; redirects++ {
		conn, failure := c.tryAddresses(x, settings, current, redirects > 0)
		if failure != nil {
			return 0, failure.Addr, failure
		}
		addr := conn.route.addr
		if failure := x.checkProxyRejection(conn.route); failure != nil {
			c.discard(conn)
			return 0, addr, failure
		}
		body, err := x.response.bodyFraming(r.IsHead)
		if err != nil {
			c.discard(conn)
			return 0, addr, conn.route.attributeToProxy(ExchangeError(addr, err, true))
		}
		cause, follow := x.classifyResponse(r, settings, redirects)
		if follow {
			c.discardResponse(x, conn, body)
			x.resetResponse()
			if redirects == 0 {
				current = r.redirectedToTLS()
			}
			continue
		}
		err = x.relay(conn, client, body, r.HTTP10)
		c.finish(x, conn, body, err == nil)
		if x.sent {
			status = x.response.status
		}
		return status, addr, x.result(conn.route, cause, err)
	}
}

// finish keeps the connection for the next exchange if the response was complete and
// neither side closes.
func (c *Client) finish(x *exchange, conn *conn, body framing, whole bool) {
	if whole && body != untilClose && x.start == x.end && x.response.minor > 0 && !x.response.connectionClose {
		c.putIdle(conn, time.Now())
	} else {
		c.discard(conn)
	}
}

// result converts the outcome of a relay to the error of Exchange.
func (x *exchange) result(route upstreamRoute, cause Cause, err error) error {
	if err != nil {
		return x.classifyRelayError(route, err)
	}
	if cause = route.routeCause(cause, x.response.status); cause != "" {
		e := &Error{Cause: cause, Addr: route.addr}
		if cause == RedirectElsewhere {
			e.Err = x.response.redirectTarget
		}
		return route.attributeToProxy(e)
	}
	return nil
}

// classifyRelayError separates errors of the upstream from those of the client.
func (x *exchange) classifyRelayError(route upstreamRoute, err error) error {
	var broken *upstreamReadError
	if !errors.As(err, &broken) {
		return err
	}
	e := route.attributeToProxy(ExchangeError(route.addr, broken.error, true))
	if x.sent {
		e.ClientStatus = 0 // the client has a part of the response
	}
	return e
}

// tryAddresses tries the addresses in turn until one sends the head of a response.
// The head is then in x. redirected means that a redirect to TLS is followed.
func (c *Client) tryAddresses(x *exchange, settings *activeSettings, r *Request, redirected bool) (*conn, *Error) {
	var first *Error
	addrs := settings.addrs(redirected)
	left := len(addrs)
	for _, sameFamily := range [...]bool{true, false} {
		for _, addr := range addrs {
			if addr.Addr().Is4() == r.VIP.Addr().Is4() != sameFamily {
				continue
			}
			left--
			route := settings.routeTo(addr, r, redirected)
			x.attempt = attempt{route, settings.handshakeSlots(route), settings.connectTimeout, r.Deadline, firstByteDeadline(r.Deadline, left), r}
			conn, err := c.tryAddress(x, &x.attempt)
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
	}
	if first == nil {
		first = &Error{Cause: NoUpstream, ClientStatus: 502}
	}
	return nil, first
}

// firstByteDeadline bounds the wait for the first byte from one address. While
// other addresses remain, it leaves a quarter of the time for them.
func firstByteDeadline(deadline time.Time, others int) time.Time {
	if others == 0 {
		return deadline
	}
	return deadline.Add(-time.Until(deadline) / 4)
}

// attempt holds the parameters of an attempt with one address. It is passed as a pointer:
// copies in each frame would make the stack of each connection's goroutine grow.
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
func (c *Client) tryAddress(x *exchange, a *attempt) (*conn, *Error) {
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
func (c *Client) tryIdle(x *exchange, a *attempt, request []byte) (*conn, *Error) {
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
		switch {
		case errors.Is(err, errStaleConnection): // the next one may be usable
		case !x.received && isConnectionLost(err):
			return nil, nil
		default:
			return nil, a.route.attributeToProxy(ExchangeError(a.route.addr, err, x.received))
		}
	}
}
