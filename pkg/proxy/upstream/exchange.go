// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"io"
	"net/netip"
	"time"
)

const (
	// firstAnswer is what an answer is read into at first: that of a solver fits,
	// and one that is waited for does not hold more.
	firstAnswer = 1 << 10
	// piece is what a body is relayed in.
	piece = 4 << 10
)

// exchange is the working memory of one challenge, reused for the next.
type exchange struct {
	in         []byte // all of it is room
	start, end int    // what of in was read and not yet used
	got        bool   // something came
	out        []byte // what the client is written next
	sent       bool   // something was written
	answer     answer
}

func newExchange() *exchange { return &exchange{} }

// reset forgets the exchange, and gives back what was more than most need.
func (x *exchange) reset() {
	in, out := x.in, x.out[:0]
	if len(in) > firstAnswer {
		in = nil
	}
	if cap(out) > 2*firstAnswer {
		out = nil
	}
	*x = exchange{in: in, out: out}
}

// again forgets the answer, of which nothing was sent.
func (x *exchange) again() {
	x.start, x.end, x.got, x.answer = 0, 0, false, answer{}
}

// room makes x.in of size bytes, with what was read and not used at its
// beginning; size is at least that much.
func (x *exchange) room(size int) {
	unused := x.in[x.start:x.end]
	if len(x.in) != size {
		x.in = make([]byte, size)
	}
	x.start, x.end = 0, copy(x.in, unused)
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
	x, _ := c.buffers.Get().(*exchange)
	defer func() {
		x.reset()
		c.buffers.Put(x)
	}()

	route := c.current()
	led := r // as it is asked now
	for hops := 0; ; hops++ {
		conn, failure := c.ask(x, route, led, hops > 0)
		if failure != nil {
			return 0, failure.Addr, failure
		}
		addr := conn.way.addr
		if failure := x.refused(conn.way); failure != nil {
			c.discard(conn)
			return 0, addr, failure
		}
		body, err := x.answer.frame(r.ToHead)
		if err != nil {
			c.discard(conn)
			return 0, addr, conn.way.blame(talkError(addr, err, true))
		}
		cause, follow := x.judge(r, route, hops)
		if follow {
			c.drop(x, conn, body)
			x.again()
			if hops == 0 {
				led = r.followed()
			}
			continue
		}
		err = x.relay(conn, client, body, r.HTTP10)
		c.end(x, conn, body, err == nil)
		if x.sent {
			status = x.answer.status
		}
		return status, addr, x.verdict(conn.way, cause, err)
	}
}

// end keeps the connection for the next exchange if the answer was a whole one and
// both sides keep it.
func (c *Client) end(x *exchange, conn *conn, body framing, whole bool) {
	if whole && body != untilClose && x.start == x.end && x.answer.minor > 0 && !x.answer.closes {
		c.keep(conn, time.Now())
	} else {
		c.discard(conn)
	}
}

// verdict turns the outcome of a relay into Exchange's error.
func (x *exchange) verdict(w way, cause Cause, err error) error {
	if err != nil {
		return x.relayError(w, err)
	}
	if cause = w.finding(cause, x.answer.status); cause != "" {
		e := &Error{Cause: cause, Addr: w.addr}
		if cause == RedirectElsewhere {
			e.Err = x.answer.elsewhere
		}
		return w.blame(e)
	}
	return nil
}

// relayError tells what the upstream did wrong from what the client did.
func (x *exchange) relayError(w way, err error) error {
	var broken *readError
	if !errors.As(err, &broken) {
		return err
	}
	e := w.blame(talkError(w.addr, broken.error, true))
	if x.sent {
		e.Status = 0 // the client has a part of the answer
	}
	return e
}

// ask tries the addresses in turn until one sends the head of an answer, which
// is then in x. Redirected says that a redirect is followed, which leads to TLS.
func (c *Client) ask(x *exchange, route *route, r *Request, redirected bool) (*conn, *Error) {
	var first *Error
	addrs := route.addrs(redirected)
	left := len(addrs)
	for _, sameFamily := range [...]bool{true, false} {
		for _, addr := range addrs {
			if addr.Addr().Is4() == r.VIP.Addr().Is4() != sameFamily {
				continue
			}
			left--
			w := route.way(addr, r, redirected)
			conn, err := c.askOne(x, attempt{w, route.room(w), route.connect, r.Deadline, share(r.Deadline, left), r})
			if err == nil {
				return conn, nil
			}
			if first == nil {
				first = err
			} else {
				first.Also = append(first.Also, err)
			}
			if x.got {
				return nil, first
			}
		}
	}
	if first == nil {
		first = &Error{Cause: NoUpstream, Status: 502}
	}
	return nil, first
}

// share is how long an address may keep an answer's first byte waiting when
// others are left to be asked: not so long that nothing remains for them.
func share(deadline time.Time, others int) time.Time {
	if others == 0 {
		return deadline
	}
	return deadline.Add(-time.Until(deadline) / 4)
}

// attempt is what one address is asked with.
type attempt struct {
	way      way
	room     chan struct{} // has one for each handshake with the address that is under way
	connect  time.Duration // bounds each step of opening a connection
	deadline time.Time
	first    time.Time // for the first byte of the answer
	request  *Request
}

// askOne asks one address, on a kept connection if one can take the request.
func (c *Client) askOne(x *exchange, a attempt) (*conn, *Error) {
	request, failure := a.head()
	if failure != nil {
		return nil, failure
	}
	if kept, failure := c.askKept(x, a, request); kept != nil || failure != nil {
		return kept, failure
	}
	fresh, failure := c.open(a)
	if failure != nil {
		return nil, failure
	}
	if err := x.ask(fresh, a, request); err != nil {
		c.discard(fresh)
		return nil, a.way.blame(talkError(a.way.addr, err, x.got))
	}
	return fresh, nil
}

// askKept asks on a kept connection. Without one that could take the request it
// returns neither. Should the router have closed that one just now, the request
// may be sent again on a fresh one: GET and HEAD are idempotent (RFC 9110 section
// 9.2.2).
func (c *Client) askKept(x *exchange, a attempt, request []byte) (*conn, *Error) {
	for now := time.Now(); ; {
		kept := c.reuse(a.way, now)
		if kept == nil {
			return nil, nil
		}
		err := x.ask(kept, a, request)
		if err == nil {
			return kept, nil
		}
		c.discard(kept)
		switch {
		case errors.Is(err, errStale): // the next one may not be
		case !x.got && isGone(err):
			return nil, nil
		default:
			return nil, a.way.blame(talkError(a.way.addr, err, x.got))
		}
	}
}
