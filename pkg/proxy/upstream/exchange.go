// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"io"
	"net/netip"
	"time"
)

const (
	// firstReadSize is what an answer is read into at first: that of a solver fits,
	// and one that is waited for does not hold more.
	firstReadSize = 1 << 10
	// relayBufferSize is what a body is relayed in.
	relayBufferSize = 4 << 10
)

// exchange is the working memory of one challenge, reused for the next.
type exchange struct {
	input      []byte // all of it is room
	start, end int    // what of in was read and not yet used
	received   bool   // something came
	output     []byte // what the client is written next
	sent       bool   // something was written
	answer     answer
}

func newExchange() *exchange { return &exchange{} }

// reset forgets the exchange, and gives back what was more than most need.
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

// resetAnswer forgets the answer, of which nothing was sent.
func (x *exchange) resetAnswer() {
	x.start, x.end, x.received, x.answer = 0, 0, false, answer{}
}

// handshakeSlots makes x.in of size bytes, with what was read and not used at its
// beginning; size is at least that much.
func (x *exchange) resizeInput(size int) {
	unused := x.input[x.start:x.end]
	if len(x.input) != size {
		x.input = make([]byte, size)
	}
	x.start, x.end = 0, copy(x.input, unused)
}

// Exchange asks the ingress for r and relays the answer to client, all by the
// deadline. The addresses of the VIP's family are asked first, then the others; the
// next one is asked only while no byte of an answer has come.
//
// It returns the status that was relayed, or 0 when nothing was, and the address
// that was asked last, the zero value when none was. The error is an *Error,
// also for a relayed answer with a finding, or what client.Write returned.
// Client gets the answer in parts as they come, its head not before the first
// byte of its body; nothing is written after an error.
func (c *Client) Exchange(r *Request, client io.Writer) (status int, from netip.AddrPort, err error) {
	x, _ := c.exchangePool.Get().(*exchange)
	defer func() {
		x.reset()
		c.exchangePool.Put(x)
	}()

	route := c.currentSettings()
	led := r // as it is asked now
	for hops := 0; ; hops++ {
		conn, failure := c.tryAddresses(x, route, led, hops > 0)
		if failure != nil {
			return 0, failure.Addr, failure
		}
		addr := conn.route.addr
		if failure := x.checkProxyRefusal(conn.route); failure != nil {
			c.discard(conn)
			return 0, addr, failure
		}
		body, err := x.answer.bodyFraming(r.IsHead)
		if err != nil {
			c.discard(conn)
			return 0, addr, conn.route.attributeToProxy(exchangeError(addr, err, true))
		}
		cause, follow := x.classifyAnswer(r, route, hops)
		if follow {
			c.discardAnswer(x, conn, body)
			x.resetAnswer()
			if hops == 0 {
				led = r.redirectedToTLS()
			}
			continue
		}
		err = x.relay(conn, client, body, r.HTTP10)
		c.finish(x, conn, body, err == nil)
		if x.sent {
			status = x.answer.status
		}
		return status, addr, x.result(conn.route, cause, err)
	}
}

// finish keeps the connection for the next exchange if the answer was a whole one and
// both sides keep it.
func (c *Client) finish(x *exchange, conn *conn, body framing, whole bool) {
	if whole && body != untilClose && x.start == x.end && x.answer.minor > 0 && !x.answer.connectionClose {
		c.putIdle(conn, time.Now())
	} else {
		c.discard(conn)
	}
}

// result turns the outcome of a relay into Exchange's error.
func (x *exchange) result(w upstreamRoute, cause Cause, err error) error {
	if err != nil {
		return x.classifyRelayError(w, err)
	}
	if cause = w.routeCause(cause, x.answer.status); cause != "" {
		e := &Error{Cause: cause, Addr: w.addr}
		if cause == RedirectElsewhere {
			e.Err = x.answer.redirectTarget
		}
		return w.attributeToProxy(e)
	}
	return nil
}

// classifyRelayError tells what the upstream did wrong from what the client did.
func (x *exchange) classifyRelayError(w upstreamRoute, err error) error {
	var broken *upstreamReadError
	if !errors.As(err, &broken) {
		return err
	}
	e := w.attributeToProxy(exchangeError(w.addr, broken.error, true))
	if x.sent {
		e.ClientStatus = 0 // the client has a part of the answer
	}
	return e
}

// flushAndWait tries the addresses in turn until one sends the head of an answer, which
// is then in x. Redirected says that a redirect is followed, which leads to TLS.
func (c *Client) tryAddresses(x *exchange, route *activeSettings, r *Request, redirected bool) (*conn, *Error) {
	var first *Error
	addrs := route.addrs(redirected)
	left := len(addrs)
	for _, sameFamily := range [...]bool{true, false} {
		for _, addr := range addrs {
			if addr.Addr().Is4() == r.VIP.Addr().Is4() != sameFamily {
				continue
			}
			left--
			w := route.routeTo(addr, r, redirected)
			conn, err := c.tryAddress(x, attempt{w, route.handshakeSlots(w), route.connectTimeout, r.Deadline, firstByteDeadline(r.Deadline, left), r})
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

// firstByteDeadline is how long an address may keep an answer's first byte waiting when
// others are left to be asked: not so long that nothing remains for them.
func firstByteDeadline(deadline time.Time, others int) time.Time {
	if others == 0 {
		return deadline
	}
	return deadline.Add(-time.Until(deadline) / 4)
}

// attempt is what one address is asked with.
type attempt struct {
	route          upstreamRoute
	handshakes     chan struct{} // has one for each handshake with the address that is under way
	connectTimeout time.Duration // bounds each step of opening a connection
	deadline       time.Time
	firstByteBy    time.Time // for the first byte of the answer
	request        *Request
}

// tryAddress asks one address, on a kept connection if one can take the request.
func (c *Client) tryAddress(x *exchange, a attempt) (*conn, *Error) {
	request, failure := a.requestHead()
	if failure != nil {
		return nil, failure
	}
	if kept, failure := c.tryIdle(x, a, request); kept != nil || failure != nil {
		return kept, failure
	}
	fresh, failure := c.openConnection(a)
	if failure != nil {
		return nil, failure
	}
	if err := x.sendAndReadHead(fresh, a, request); err != nil {
		c.discard(fresh)
		return nil, a.route.attributeToProxy(exchangeError(a.route.addr, err, x.received))
	}
	return fresh, nil
}

// tryIdle asks on a kept connection. Without one that could take the request it
// returns neither. Should the router have closed that one just now, the request
// may be sent again on a fresh one: GET and HEAD are idempotent (RFC 9110 section
// 9.2.2).
func (c *Client) tryIdle(x *exchange, a attempt, request []byte) (*conn, *Error) {
	for now := time.Now(); ; {
		kept := c.reuseIdle(a.route, now)
		if kept == nil {
			return nil, nil
		}
		err := x.sendAndReadHead(kept, a, request)
		if err == nil {
			return kept, nil
		}
		c.discard(kept)
		switch {
		case errors.Is(err, errStaleConnection): // the next one may not be
		case !x.received && isConnectionLost(err):
			return nil, nil
		default:
			return nil, a.route.attributeToProxy(exchangeError(a.route.addr, err, x.received))
		}
	}
}
