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

// room makes x.in of size bytes, with what was read and not used at its
// beginning; size is at least that much.
func (x *exchange) room(size int) {
	unused := x.in[x.start:x.end]
	if len(x.in) != size {
		x.in = make([]byte, size)
	}
	x.start, x.end = 0, copy(x.in, unused)
}

// Exchange sends request, one complete head of a GET or HEAD, to the ingress and
// relays the answer to client, all by deadline. The addresses of vip's family
// are asked first, then the others; the next one is asked only while no byte of
// an answer has come. toHead says that the request is HEAD; http10 that the
// client cannot read chunks.
//
// It returns the status that was relayed, or 0 when nothing was, and the address
// that was asked last, the zero value when none was. The error is an *Error,
// also for a relayed answer with a finding, or what client.Write returned.
// Client gets the answer in parts as they come, its head not before the first
// byte of its body; nothing is written after an error.
func (c *Client) Exchange(deadline time.Time, vip netip.Addr, request []byte, toHead, http10 bool, client io.Writer) (status int, from netip.AddrPort, err error) {
	x, _ := c.buffers.Get().(*exchange)
	defer func() {
		x.reset()
		c.buffers.Put(x)
	}()

	conn, failure := c.ask(x, deadline, vip, request)
	if failure != nil {
		return 0, failure.Addr, failure
	}
	body, err := x.answer.frame(toHead)
	if err != nil {
		c.discard(conn)
		return 0, conn.addr, talkError(conn.addr, err, true)
	}
	err = x.relay(conn, client, body, http10)
	if err == nil && body != untilClose && x.start == x.end && x.answer.minor > 0 && !x.answer.closes {
		c.keep(conn, time.Now())
	} else {
		c.discard(conn)
	}
	if x.sent {
		status = x.answer.status
	}
	return status, conn.addr, x.verdict(conn.addr, err)
}

// verdict turns the outcome of a relay into Exchange's error.
func (x *exchange) verdict(addr netip.AddrPort, err error) error {
	if err != nil {
		return x.relayError(addr, err)
	}
	if cause := x.answer.finding(); cause != "" {
		return &Error{Cause: cause, Addr: addr}
	}
	return nil
}

// relayError tells what the upstream did wrong from what the client did.
func (x *exchange) relayError(addr netip.AddrPort, err error) error {
	var broken *readError
	if !errors.As(err, &broken) {
		return err
	}
	e := talkError(addr, broken.error, true)
	if x.sent {
		e.Status = 0 // the client has a part of the answer
	}
	return e
}

// ask tries the addresses in turn until one sends the head of an answer, which
// is then in x.
func (c *Client) ask(x *exchange, deadline time.Time, vip netip.Addr, request []byte) (*conn, *Error) {
	r, connect := c.current()
	var first *Error
	left := len(r.addrs)
	for _, sameFamily := range [...]bool{true, false} {
		for _, addr := range r.addrs {
			if addr.Addr().Is4() == vip.Is4() != sameFamily {
				continue
			}
			left--
			conn, err := c.askOne(x, attempt{addr, r, connect, deadline, share(deadline, left)}, request)
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
	addr     netip.AddrPort
	route    *route
	connect  time.Duration
	deadline time.Time
	first    time.Time // for the first byte of the answer
}

// askOne asks one address, on a kept connection if one can take the request.
func (c *Client) askOne(x *exchange, a attempt, request []byte) (*conn, *Error) {
	if kept, failure := c.askKept(x, a, request); kept != nil || failure != nil {
		return kept, failure
	}
	timeout := min(a.connect, time.Until(a.first))
	if timeout <= 0 {
		return nil, talkError(a.addr, errNoTime, false)
	}
	fresh, err := c.dial(a.addr, a.route, timeout)
	if err != nil {
		if c.dialing.Err() != nil {
			return nil, &Error{Cause: Stopped, Addr: a.addr, Status: 502, Err: err}
		}
		return nil, dialError(a.addr, err)
	}
	if err := x.ask(fresh, a, request); err != nil {
		c.discard(fresh)
		return nil, talkError(a.addr, err, x.got)
	}
	return fresh, nil
}

// askKept asks on a kept connection. Without one that could take the request it
// returns neither. Should the router have closed that one just now, the request
// may be sent again on a fresh one: GET and HEAD are idempotent (RFC 9110 section
// 9.2.2).
func (c *Client) askKept(x *exchange, a attempt, request []byte) (*conn, *Error) {
	for now := time.Now(); ; {
		kept := c.reuse(a.addr, now)
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
			return nil, talkError(a.addr, err, x.got)
		}
	}
}
