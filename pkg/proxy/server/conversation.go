// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/tcp"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// firstRead is what a head is read into at first: a validator's fits, and one
	// that is never completed does not hold the full size.
	firstRead = 1 << 10
	// longRead is what a longer head is read into: the default limit of a head.
	longRead = 8 << 10
	// maxKept bounds what reused memory holds on to.
	maxKept = 2 << 10

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
	tcp    tcp.Conn
	rules  *rules
	since  time.Time // its head is waited for
	headBy time.Time

	// Guarded by live.
	stage                 stage
	why                   report.Refusal // it has to leave
	source                *source        // nil while no source is bounded
	amongAll, amongSource element

	vip    netip.Addr
	client netip.AddrPort

	first   [firstRead]byte
	buf     []byte // what the client has sent: in first, or a larger buffer that is given back
	request reqhead.Request
	out     []byte // what is written next
	asked   Request
	toHead  bool // a challenge is asked for with HEAD
	done    report.Challenge
	writer  clientWriter
}

// clientWriter remembers whether the client took what it was written: what
// fails there is not the upstream's fault.
type clientWriter struct {
	tcp    *tcp.Conn
	failed bool
}

func (w *clientWriter) Write(p []byte) (int, error) {
	n, err := w.tcp.Write(p)
	w.failed = w.failed || err != nil
	return n, err
}

func newConversation() *conversation {
	c := new(conversation)
	c.amongAll.of, c.amongSource.of = c, c
	return c
}

// meet makes a new client known.
func (c *conversation) meet() {
	c.writer = clientWriter{tcp: &c.tcp}
	c.vip = c.tcp.Local().Addr()
	c.client = c.tcp.Remote()
}

// begin holds the conversation in a goroutine of its own, or refuses it, or
// returns what there is to wait for.
func (g *Gate) begin(c *conversation, unbounded bool) admission {
	c.rules = g.rules.Load()
	c.since = time.Now()
	c.headBy = c.since.Add(c.rules.HeadTimeout)
	// Before it can be seen by those who may shorten it.
	_ = c.tcp.SetReadDeadline(c.headBy)
	a := g.live.admit(c, unbounded)
	switch {
	case a.refused:
		c.abort()
		g.end(c)
		g.recorder.Refused(report.SourceLimit, report.OtherClient)
	case a.patience == 0:
		go g.converse(c)
	}
	return a
}

// memory has conversations that are over.
type memory struct{ pool sync.Pool }

func (m *memory) get() *conversation {
	if c, is := m.pool.Get().(*conversation); is {
		return c
	}
	return newConversation()
}

func (m *memory) put(c *conversation) { m.pool.Put(c) }

func (g *Gate) converse(c *conversation) {
	g.serve(c)
	g.live.remove(c)
	g.end(c)
}

// end has the memory of c serve another.
func (g *Gate) end(c *conversation) {
	g.forgetRequest(c)
	c.forget()
	g.memory.put(c)
}

func (c *conversation) forget() {
	c.rules, c.writer, c.done, c.asked = nil, clientWriter{}, report.Challenge{}, Request{}
	c.out = c.out[:0]
	if cap(c.out) > maxKept {
		c.out = nil
	}
}

// forgetRequest drops what the client has sent: while the upstream is waited
// for, a long head is held in the form that is forwarded only.
func (g *Gate) forgetRequest(c *conversation) {
	c.request.Reset()
	if cap(c.buf) == longRead {
		g.long.Put((*[longRead]byte)(c.buf[:longRead]))
	}
	c.buf = c.first[:0]
}

// serve reads the head, decides, and answers or forwards.
func (g *Gate) serve(c *conversation) {
	length, fault, silent := g.readHead(c)
	if why := g.live.heard(c, fault == reqhead.HeadTimeout); why != "" {
		c.abort()
		g.recorder.Refused(why, report.OtherClient)
		return
	}
	if silent {
		g.recorder.Refused(refusalOf(fault), report.OtherClient)
		_ = c.tcp.Close()
		return
	}
	if fault == reqhead.None {
		fault = c.request.Judge(c.rules.allows, len(c.buf)-length)
	}
	if fault == reqhead.None {
		g.forward(c)
		return
	}
	c.refuse(fault, length > 0 && c.request.IsHead())
	asker := report.OtherClient
	if length > 0 {
		asker = askerOf(c.request.Agent())
	}
	g.recorder.Refused(refusalOf(fault), asker)
	g.close(c, length == 0 || c.request.HasBody())
}

// readHead reads until the head is complete. It returns the head's length, or
// 0 with the fault that ended it; silent says that the client is not there to
// read an answer, or has asked for nothing.
func (g *Gate) readHead(c *conversation) (length int, fault reqhead.Fault, silent bool) {
	limit := c.rules.HeadBytes
	c.buf = c.first[:0]
	for {
		if len(c.buf) == cap(c.buf) {
			g.grow(c, limit)
		}
		n, err := c.tcp.Read(c.buf[len(c.buf):min(cap(c.buf), limit)])
		c.buf = c.buf[:len(c.buf)+n]
		if n > 0 {
			length, fault = c.request.Parse(c.buf)
			if length > 0 || fault != reqhead.None {
				return length, fault, false
			}
			if len(c.buf) >= limit {
				return 0, c.request.Overflow(), false
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			return 0, reqhead.HeadTimeout, len(c.buf) == 0
		case errors.Is(err, io.EOF):
			return 0, reqhead.HeadNotTerminated, len(c.buf) == 0
		default:
			return 0, reqhead.HeadNotTerminated, true
		}
	}
}

// grow makes room for the next read. Long buffers go round: a flood of long
// heads must not leave as many of them behind as garbage.
func (g *Gate) grow(c *conversation, limit int) {
	var bigger []byte
	if cap(c.buf) < longRead {
		long, _ := g.long.Get().(*[longRead]byte)
		bigger = long[:]
	} else {
		bigger = make([]byte, min(2*cap(c.buf), limit))
	}
	n := copy(bigger, c.buf)
	if cap(c.buf) == longRead {
		g.long.Put((*[longRead]byte)(c.buf[:longRead]))
	}
	c.buf = bigger[:n]
}

// challengePort is where a CA asks (RFC 8555 section 8.3), and what the kernel
// leads here of.
const challengePort = 80

// forward has the upstream answer, and answers itself when that cannot.
func (g *Gate) forward(c *conversation) {
	begin := time.Now()
	deadline := begin.Add(c.rules.Timeout)
	_ = c.tcp.SetWriteDeadline(deadline.Add(answerWrite))
	c.out = c.request.Append(c.out[:0], c.client.Addr(), c.vip)
	c.toHead = c.request.IsHead()
	c.note(begin)
	c.put(deadline)
	g.forgetRequest(c)
	code, from, err := g.upstream.Exchange(&c.asked, &c.writer)
	if g.conclude(c, code, from, err) {
		c.abort()
		return
	}
	g.close(c, false)
}

// put makes the question for the upstream. It refers to what outlives the request
// as it came: the head that is forwarded, and the record.
func (c *conversation) put(deadline time.Time) {
	target := len(c.request.Method()) + 1 // where Append puts it
	c.asked = Request{
		Deadline: deadline,
		VIP:      netip.AddrPortFrom(c.vip, challengePort),
		Client:   c.client,
		Head:     c.out,
		Host:     c.done.Host[:len(c.request.Hostname())],
		Target:   c.out[target : target+len(c.request.Target())],
		ToHead:   c.toHead,
		HTTP10:   c.request.Minor() == 0,
	}
}

// note begins the record of a challenge. It is not on the stack, which waits
// with the upstream: thousands of them do.
func (c *conversation) note(begin time.Time) {
	c.done = report.Challenge{
		Time:        begin,
		VIP:         c.vip,
		Client:      c.client,
		Method:      methodOf(c.toHead),
		Host:        string(c.request.Host()),
		Token:       tokenHash(c.request.Token()),
		TokenPrefix: tokenPrefix(c.request.Token()),
		ClientKind:  askerOf(c.request.Agent()),
	}
}

// conclude ends the record and tells the client what it has not been told. It
// reports whether the client has a part of an answer only.
func (g *Gate) conclude(c *conversation, code int, from netip.AddrPort, err error) (cut bool) {
	c.done.Status, c.done.Upstream = code, from
	var why *cause.Failure
	if err != nil && !c.writer.failed {
		cut, why = c.explain(&c.done, err)
	}
	if c.writer.failed {
		c.done.Status = 0
	}
	c.done.Duration = time.Since(c.done.Time)
	g.recorder.Challenge(c.done, why)
	return cut
}

// explain records what was found at the upstream, and tells the client when
// nothing else was written to it. It reports whether the client has a part of
// an answer only.
func (c *conversation) explain(done *report.Challenge, err error) (cut bool, why *cause.Failure) {
	code, reason := 502, "the upstream could not be asked"
	cut = done.Status != 0
	var finding Finding
	if errors.As(err, &finding) {
		code, reason = finding.Answer()
		cut = finding.Cut()
		found := finding.Failure()
		done.Cause, why = finding.Label(), &found
	}
	if done.Status == 0 {
		done.Status = code
		c.answer(code, reason, "", c.toHead)
	}
	return cut, why
}

func methodOf(toHead bool) string {
	if toHead {
		return "HEAD"
	}
	return "GET"
}

// maxShown bounds what a log may hold of a token.
const maxShown = 8

// tokenPrefix is as much of the token as a log may hold: never more than half
// of it. A token that was judged is printable ASCII.
func tokenPrefix(token []byte) string {
	return string(token[:min(len(token)/2, maxShown)])
}

func refusalOf(f reqhead.Fault) report.Refusal {
	switch f {
	case reqhead.NotChallenge:
		return report.NotChallenge
	case reqhead.ForeignHost:
		return report.ForeignHost
	case reqhead.MethodNotAllowed:
		return report.BadMethod
	case reqhead.LineTooLong, reqhead.HeadTooLarge, reqhead.TooManyFields:
		return report.TooLarge
	case reqhead.HeadTimeout:
		return report.HeadTimeout
	case reqhead.HeadNotTerminated:
		return report.ClientGone
	case reqhead.Loop:
		return report.Loop
	default:
		return report.BadRequest
	}
}
