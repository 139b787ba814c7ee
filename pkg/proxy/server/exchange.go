// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/loop"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// challengePort is the port that a CA connects to (RFC 8555 section 8.3). nftables
	// replaces it by the port of this proxy.
	challengePort = 80
	// maxTokenPrefix bounds the part of a token that a log may contain: at most half of it.
	maxTokenPrefix = 8
)

// exchange is the part of a connection that a forwarded request uses.
type exchange struct {
	forwarded bool
	record    report.Challenge
	failure   *cause.Failure
	selfTest  *protocol.SelfTest // that the request belongs to, or nil
	request   upstream.Request

	direct      upstream.Direct
	link        *link
	firstByteBy time.Time // of the response

	hasDelegate bool               // a goroutine that uses this memory
	ctx         context.Context    // of the delegate
	cancel      context.CancelFunc // ends it early
	relay       *upstream.Relay    // with the response to a delegate
	givenUp     bool               // others need its slot
}

//nolint:gochecknoglobals // memory between exchanges of delegates
var relays = sync.Pool{New: func() any { return new(upstream.Relay) }}

// forward sends the request to the upstream. Without a response from there, the proxy
// answers.
func (c *connection) forward() {
	begin := c.worker.Now()
	deadline := begin.Add(c.settings.Upstream.Timeout)
	c.forwarded, c.writeBy = true, deadline.Add(responseWriteTimeout)
	vip := loop.LocalAddr(c.fd).Addr()
	c.out = c.head.Append(c.out[:0], c.client.Addr(), vip)
	method := "GET"
	if c.head.IsHead() {
		method = "HEAD"
	}
	token := c.head.Token() // printable ASCII
	c.record = report.Challenge{
		Time:        begin,
		VIP:         vip,
		Client:      c.client,
		Method:      method,
		Host:        c.worker.hostOf(&c.head),
		Token:       tokenHash(token),
		TokenPrefix: string(token[:min(len(token)/2, maxTokenPrefix)]),
		ClientKind:  clientKindOf(c.head.UserAgent()),
	}
	c.selfTest = c.worker.server.takeSelfTest(c)
	// It refers only to memory that outlives the received head.
	target := len(c.head.Method()) + 1 // as Append writes it
	c.request = upstream.Request{
		Deadline: deadline,
		VIP:      netip.AddrPortFrom(vip, challengePort),
		Client:   c.client,
		Head:     c.out,
		Host:     c.record.Host[:len(c.head.Hostname())],
		Target:   c.out[target : target+len(c.head.Target())],
		IsHead:   c.head.IsHead(),
	}
	c.releaseRequest()
	var ok bool
	if c.direct, ok = c.worker.server.upstream.Direct(vip); !ok {
		c.delegate()
		return
	}
	c.firstByteBy = upstream.FirstByteDeadline(deadline, c.direct.Others)
	if c.link = c.worker.takeLink(c.direct.Addr, c.request.Host); c.link == nil {
		c.connect()
		return
	}
	c.link.owner = c
	c.to(sending)
	c.setTimer(c.firstByteBy)
	c.worker.Post(c.link.begin)
}

// reconnect replaces a kept connection that cannot be used again.
func (c *connection) reconnect() {
	c.closeLink()
	c.connect()
}

func (c *connection) connect() {
	l, err := c.worker.connect(c.direct.Addr, c.request.Host)
	if err != nil {
		c.exchangeFailed(upstream.DialError(c.direct.Addr, err))
		return
	}
	c.link, l.owner = l, c
	c.to(connecting)
	deadline := c.worker.Now().Add(c.direct.ConnectTimeout)
	if c.firstByteBy.Before(deadline) {
		deadline = c.firstByteBy
	}
	c.setTimer(deadline)
}

// transmitAndRead sends the rest of the request, and reads until EAGAIN what may have arrived
// before its end: an edge-triggered event is not repeated.
func (c *connection) transmitAndRead(readable bool) {
	if c.transmit(); c.state == awaiting && readable {
		c.readResponse()
	}
}

func (c *connection) linkReady(events uint32) {
	switch c.state {
	case connecting:
		if events&(unix.EPOLLOUT|loop.Closed) == 0 {
			return
		}
		if err := loop.ConnectResult(c.link.fd); err != nil {
			c.exchangeFailed(upstream.DialError(c.direct.Addr, err))
			return
		}
		c.to(sending)
		c.transmitAndRead(events&loop.Readable != 0)
	case sending:
		if c.link.sent == 0 && c.link.reused { // beginRequest sends
			if events&loop.Readable != 0 {
				c.reconnect()
			}
			return
		}
		c.transmitAndRead(true)
	case awaiting:
		c.readResponse()
	default: // the client is slow; the response waits
		c.link.hasUnread = c.link.hasUnread || events&loop.Readable != 0
	}
}

func (c *connection) transmit() {
	l := c.link
	for l.sent < len(c.request.Head) {
		n, err := loop.Write(l.fd, c.request.Head[l.sent:])
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if err != nil {
			c.linkFailed(err)
			return
		}
		l.sent += n
	}
	c.setTimer(c.firstByteBy)
	if l.sent == len(c.request.Head) {
		c.to(awaiting)
	}
}

// readResponse reads until the response is complete or no bytes are left.
func (c *connection) readResponse() {
	for c.readLink() {
		switch done, follow, err := c.direct.Advance(&c.link.Relay, &c.request); {
		case err != nil:
			c.linkFailed(err)
			return
		case follow:
			c.closeLink()
			c.request.Redirected = true
			c.delegate()
			return
		case done && c.beginRepeat(c.link.Status(), c.link.reused):
			c.worker.dropLinks(c.direct.Addr)
			c.firstByteBy = upstream.FirstByteDeadline(c.request.Deadline, c.direct.Others)
			c.reconnect()
			return
		case done:
			c.exchanged(&c.link.Relay, c.direct.Addr, c.direct.Shown(&c.link.Relay))
			return
		}
	}
}

// readLink reads the next bytes of the response. It returns false without them: the exchange
// ended or waits.
func (c *connection) readLink() bool {
	l := c.link
	first := !l.HasReceived()
	space := l.Space()
	n, err := loop.Read(l.fd, space)
	l.hasUnread = n == len(space)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return false
	case n == 0 && err == nil:
		err = l.End()
	default:
	}
	if err != nil {
		c.linkFailed(err)
		return false
	}
	if l.Received(n); first && c.direct.Others > 0 {
		c.setTimer(c.request.Deadline)
	}
	return true
}

// linkFailed ends an exchange after an error of the ingress. If a kept connection is lost,
// the request is sent again on a new one: GET and HEAD are idempotent (RFC 9110 section
// 9.2.2).
func (c *connection) linkFailed(err error) {
	if c.link.reused && !c.link.HasReceived() && upstream.IsRepeatable(err) {
		c.reconnect()
		return
	}
	c.exchangeFailed(upstream.ExchangeError(c.direct.Addr, err, c.link.HasReceived()))
}

// exchangeFailed tries the other addresses, or answers.
func (c *connection) exchangeFailed(e *upstream.Error) {
	received := c.link != nil && c.link.HasReceived()
	c.closeLink()
	if c.direct.Others > 0 && !received {
		c.request.Failed = e
		c.delegate()
		return
	}
	c.exchanged(nil, c.direct.Addr, e)
}

// giveUp ends an exchange whose slot others need. The connection to the ingress ends with a reset
// (loop.Connect), which an ingress that waits for its own servers notices too.
func (c *connection) giveUp() {
	c.givenUp = true
	if c.hasDelegate {
		c.cancel() // its end follows
		return
	}
	c.closeLink()
	c.exchanged(nil, c.direct.Addr, upstream.GivenUp(c.direct.Addr))
}

// releaseLink keeps the connection to the ingress for the next exchange if that is possible.
// Bytes that may still be unread would be the next response.
func (c *connection) releaseLink() {
	if l := c.link; l != nil && l.Reusable() && !l.hasUnread && !l.ended {
		c.link = nil
		c.worker.keepLink(l)
		return
	}
	c.closeLink()
}

func (c *connection) closeLink() {
	if c.link != nil {
		c.link.close()
		c.link = nil
	}
}

// exchanged ends an exchange. The client gets the response that x contains. Without one, the
// proxy answers.
func (c *connection) exchanged(x *upstream.Relay, from netip.AddrPort, e *upstream.Error) {
	c.worker.StopTimer(&c.timer)
	c.record.Upstream = from
	if e != nil {
		f := e.Failure()
		c.record.Cause, c.failure = f.Cause, &f
	}
	if e == nil || e.ClientStatus == 0 {
		c.record.Status = x.Status()
		c.reply(x.Output(), c.writeBy)
		return
	}
	answer := reqhead.Response{Status: 502, Phrase: "Bad Gateway", Text: cause.Reply(c.record.Cause)}
	if e.ClientStatus == 504 {
		answer.Status, answer.Phrase = 504, "Gateway Timeout"
	}
	c.record.Status = answer.Status
	c.respond(answer, c.request.IsHead)
}

// finish ends a connection whose client got its response, or is gone.
func (c *connection) finish() {
	if c.forwarded {
		c.finishRecord()
	}
	c.releaseLink()
	c.end()
}

func (c *connection) finishRecord() {
	if c.clientGone {
		c.record.Status = 0
	}
	recorder := c.worker.server.recorder
	if c.selfTest != nil {
		recorder.RecordSelfTest(protocol.SelfTested{
			ID: c.selfTest.ID, Status: c.record.Status, Upstream: c.record.Upstream, Failure: c.failure,
		})
		return
	}
	c.record.Duration = time.Since(c.record.Time)
	recorder.RecordChallenge(c.record, c.failure)
}

// delegate passes the request to a goroutine: for TLS, a PROXY header, an egress proxy or
// another address. The goroutine never uses the socket of the client.
func (c *connection) delegate() {
	c.worker.StopTimer(&c.timer)
	c.to(delegated)
	c.hasDelegate = true
	c.ctx, c.cancel = context.WithCancel(context.Background())
	select {
	case c.worker.delegates <- c:
		c.worker.idleDelegates.Add(-1)
	default: // no goroutine waits
		go c.worker.runDelegates(c)
	}
}

// runDelegates exchanges the request of a connection, and then the requests of others, because
// the stack of its goroutine already grew to what TLS needs.
func (w *worker) runDelegates(c *connection) {
	for ok := true; ok; c, ok = <-w.delegates {
		c.exchangeDelegated()
		if w.idleDelegates.Add(1) > maxFree {
			w.idleDelegates.Add(-1)
			return
		}
	}
}

func (c *connection) exchangeDelegated() {
	if c.relay == nil {
		c.relay, _ = relays.Get().(*upstream.Relay)
	}
	from, failure := c.worker.server.upstream.Exchange(c.ctx, &c.request, c.relay)
	c.cancel()
	c.worker.Post(func() {
		if c.hasDelegate = false; c.state == closed {
			c.release()
			return
		}
		if c.givenUp && failure != nil && failure.ClientStatus != 0 {
			failure = upstream.GivenUp(from)
		}
		hasResponse := failure == nil || failure.ClientStatus == 0
		if hasResponse && c.beginRepeat(c.relay.Status(), c.relay.WasKept()) {
			c.relay.Reset()
			c.delegate()
			return
		}
		c.exchanged(c.relay, from, failure)
	})
}

func (c *connection) respond(r reqhead.Response, isHead bool) {
	now := time.Now()
	c.out = appendResponse(c.out[:0], r, now, isHead)
	c.reply(c.out, now.Add(responseWriteTimeout))
}

// reply writes a response. A slow client gets time until deadline.
func (c *connection) reply(response []byte, deadline time.Time) {
	c.pending, c.written = response, 0
	c.to(replying)
	if c.flush() {
		c.finish()
	} else {
		c.await(deadline)
	}
}

func appendResponse(b []byte, r reqhead.Response, now time.Time, isHead bool) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(r.Status), 10)
	b = append(b, ' ')
	b = append(b, r.Phrase...)
	// RFC 9110 section 6.6.1: a server with a clock sends the time.
	b = append(b, "\r\nDate: "...)
	b = now.UTC().AppendFormat(b, "Mon, 02 Jan 2006 15:04:05 GMT")
	b = append(b, "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(r.Text)), 10)
	b = append(b, r.Field...)
	// RFC 9110 section 15.5: caches may store some of these responses by default.
	b = append(b, "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"...)
	if !isHead {
		b = append(b, r.Text...)
	}
	return b
}
