// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/gate/head"
	"github.com/http01-proxyd/http01-proxyd/pkg/status"
)

const (
	// firstRead is what a head is read into at first: a validator's fits, and one
	// that is never completed does not hold the full size.
	firstRead = 1 << 10
	// maxKept bounds what reused memory holds on to.
	maxKept = 4 << 10

	// answerWrite bounds the writing of an answer of our own, and what a slow
	// reader gets beyond the challenge's budget.
	answerWrite = 2 * time.Second

	// lingerTime and lingerBytes bound the wait for a client that still sends
	// while our answer is on its way.
	lingerTime  = 2 * time.Second
	lingerBytes = 256 << 10
)

// conversation is one connection and the memory it needs, which serves the
// next one afterwards.
type conversation struct {
	tcp     *net.TCPConn
	rules   *rules
	headBy  time.Time
	reading atomic.Bool // the head is not complete

	vip    netip.Addr
	client netip.AddrPort

	buf     []byte // what the client has sent
	request head.Request
	out     []byte // what is written next
	writer  clientWriter
}

// clientWriter remembers whether the client took what it was written: what
// fails there is not the upstream's fault.
type clientWriter struct {
	tcp    *net.TCPConn
	failed bool
}

func (w *clientWriter) Write(p []byte) (int, error) {
	n, err := w.tcp.Write(p)
	w.failed = w.failed || err != nil
	return n, err
}

func newConversation() *conversation {
	return &conversation{buf: make([]byte, 0, firstRead)}
}

// begin holds the conversation with a new client in a goroutine of its own.
func (g *Gate) begin(tcp *net.TCPConn) {
	c, _ := g.memory.Get().(*conversation)
	c.tcp, c.rules = tcp, g.rules.Load()
	c.writer = clientWriter{tcp: tcp}
	c.vip = addrOf(tcp.LocalAddr()).Addr()
	c.client = addrOf(tcp.RemoteAddr())
	c.headBy = time.Now().Add(c.rules.HeadTimeout)
	c.reading.Store(true)
	// Before it can be seen by hurry, which may shorten it.
	_ = tcp.SetReadDeadline(c.headBy)
	g.live.add(c)
	go g.converse(c)
}

func (g *Gate) converse(c *conversation) {
	g.serve(c)
	g.live.remove(c)
	c.forget()
	g.memory.Put(c)
}

func (c *conversation) forget() {
	c.tcp, c.rules, c.writer = nil, nil, clientWriter{}
	c.request.Reset()
	c.buf, c.out = c.buf[:0], c.out[:0]
	if cap(c.buf) > maxKept {
		c.buf = make([]byte, 0, firstRead)
	}
	if cap(c.out) > maxKept {
		c.out = nil
	}
}

func addrOf(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := tcp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
}

// serve reads the head, decides, and answers or forwards.
func (g *Gate) serve(c *conversation) {
	length, fault, silent := c.readHead()
	c.reading.Store(false)
	if silent {
		g.recorder.Refused(refusalOf(fault))
		_ = c.tcp.Close()
		return
	}
	if fault == head.None {
		fault = c.request.Judge(c.rules.allows, len(c.buf)-length)
	}
	if fault == head.None {
		g.forward(c)
		return
	}
	c.refuse(fault, length > 0 && c.request.IsHead())
	g.recorder.Refused(refusalOf(fault))
	c.close(length == 0 || c.request.HasBody())
}

// readHead reads until the head is complete. It returns the head's length, or
// 0 with the fault that ended it; silent says that the client is not there to
// read an answer, or has asked for nothing.
func (c *conversation) readHead() (length int, fault head.Fault, silent bool) {
	limit := c.rules.HeadBytes
	for {
		c.grow(limit)
		n, err := c.tcp.Read(c.buf[len(c.buf):min(cap(c.buf), limit)])
		c.buf = c.buf[:len(c.buf)+n]
		if n > 0 {
			length, fault = c.request.Parse(c.buf)
			if length > 0 || fault != head.None {
				return length, fault, false
			}
			if len(c.buf) >= limit {
				return 0, c.request.Overflow(), false
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			return 0, head.HeadTimeout, len(c.buf) == 0
		case errors.Is(err, io.EOF):
			return 0, head.HeadNotTerminated, len(c.buf) == 0
		default:
			return 0, head.HeadNotTerminated, true
		}
	}
}

// grow makes room for the next read.
func (c *conversation) grow(limit int) {
	if len(c.buf) < cap(c.buf) {
		return
	}
	bigger := make([]byte, len(c.buf), min(2*cap(c.buf), limit))
	copy(bigger, c.buf)
	c.buf = bigger
}

// forward has the upstream answer, and answers itself when that cannot.
func (g *Gate) forward(c *conversation) {
	begin := time.Now()
	deadline := begin.Add(c.rules.Timeout)
	_ = c.tcp.SetWriteDeadline(deadline.Add(answerWrite))
	c.out = c.request.Append(c.out[:0], c.client.Addr(), c.vip)
	code, from, err := g.upstream.Exchange(deadline, c.vip, c.out, c.request.IsHead(), c.request.Minor() == 0, &c.writer)

	done := status.Challenge{
		Time:        begin,
		VIP:         c.vip,
		Client:      c.client,
		Method:      c.method(),
		Host:        string(c.request.Host()),
		TokenPrefix: c.tokenPrefix(),
		Status:      code,
		Upstream:    from,
	}
	cut := false
	if err != nil && !c.writer.failed {
		cut = c.explain(&done, err)
	}
	if c.writer.failed {
		done.Status = 0
	}
	done.Duration = time.Since(begin)
	g.recorder.Challenge(done)
	if cut {
		c.abort()
		return
	}
	c.close(false)
}

// explain records what was found at the upstream, and tells the client when
// nothing else was written to it. It reports whether the client has a part of
// an answer only.
func (c *conversation) explain(done *status.Challenge, err error) (cut bool) {
	code, reason := 502, "the upstream could not be asked"
	cut = done.Status != 0
	done.Detail = err.Error()
	var finding Finding
	if errors.As(err, &finding) {
		code, reason = finding.Answer()
		cut = finding.Cut()
		done.Cause, done.Detail = finding.Label(), finding.Detail()
	}
	if done.Status == 0 {
		done.Status = code
		c.answer(code, reason, c.request.IsHead())
	}
	return cut
}

func (c *conversation) method() string {
	if c.request.IsHead() {
		return "HEAD"
	}
	return "GET"
}

// tokenPrefix is as much of the token as a log may hold. A token that was
// judged is printable ASCII.
func (c *conversation) tokenPrefix() string {
	token := c.request.Token()
	return string(token[:min(len(token), 8)])
}

func refusalOf(f head.Fault) status.Refusal {
	switch f {
	case head.NotChallenge:
		return status.NotChallenge
	case head.ForeignHost:
		return status.ForeignHost
	case head.MethodNotAllowed:
		return status.BadMethod
	case head.LineTooLong, head.HeadTooLarge, head.TooManyFields:
		return status.TooLarge
	case head.HeadTimeout:
		return status.HeadTimeout
	case head.HeadNotTerminated:
		return status.ClientGone
	default:
		return status.BadRequest
	}
}
