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
	// firstReadSize is what a head is read into at first: a validator's fits, and one
	// that is never completed does not hold the full size.
	firstReadSize = 1 << 10
	// longBufferSize is what a longer head is read into: the default limit of a head.
	longBufferSize = 8 << 10
	// maxKeptCapacity bounds what reused memory holds on to.
	maxKeptCapacity = 2 << 10

	// answerWriteTimeout bounds the writing of an answer of our own, and what a slow
	// reader gets beyond the challenge's budget.
	answerWriteTimeout = 2 * time.Second

	// lingerTime and lingerBytes bound the wait for a client that still sends
	// while our answer is on its way.
	lingerTime  = 2 * time.Second
	lingerBytes = 256 << 10
)

// connection is one connection and the memory it needs, which serves the
// next one afterwards.
type connection struct {
	tcp          tcp.Conn
	settings     *activeSettings
	acceptedAt   time.Time // its head is waited for
	headDeadline time.Time

	// Guarded by live.
	stage                   stage
	evictionReason          report.Refusal // it has to leave
	source                  *source        // nil while no source is bounded
	tableEntry, sourceEntry listNode

	vip    netip.Addr
	client netip.AddrPort

	inlineBuf       [firstReadSize]byte
	buf             []byte // what the client has sent: in first, or a larger buffer that is given back
	request         reqhead.Request
	out             []byte // what is written next
	upstreamRequest Request
	isHead          bool // a challenge is asked for with HEAD
	record          report.Challenge
	writer          clientWriter
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

func newConnection() *connection {
	c := new(connection)
	c.tableEntry.connection, c.sourceEntry.connection = c, c
	return c
}

// recordAddresses makes a new client known.
func (c *connection) recordAddresses() {
	c.writer = clientWriter{tcp: &c.tcp}
	c.vip = c.tcp.Local().Addr()
	c.client = c.tcp.Remote()
}

// start holds the conversation in a goroutine of its own, or refuses it, or
// returns what there is to wait for.
func (g *Server) start(c *connection, unbounded bool) admission {
	c.settings = g.settings.Load()
	c.acceptedAt = time.Now()
	c.headDeadline = c.acceptedAt.Add(c.settings.HeadTimeout)
	// Before it can be seen by those who may shorten it.
	_ = c.tcp.SetReadDeadline(c.headDeadline)
	a := g.connections.admit(c, unbounded)
	switch {
	case a.refused:
		c.abort()
		g.release(c)
		g.recorder.RecordRefusal(report.SourceLimit, report.OtherClient)
	case a.maxWait == 0:
		go g.handle(c)
	}
	return a
}

// connectionPool has conversations that are over.
type connectionPool struct{ pool sync.Pool }

func (m *connectionPool) get() *connection {
	if c, is := m.pool.Get().(*connection); is {
		return c
	}
	return newConnection()
}

func (m *connectionPool) put(c *connection) { m.pool.Put(c) }

func (g *Server) handle(c *connection) {
	g.serveRequest(c)
	g.connections.remove(c)
	g.release(c)
}

// release has the memory of c serve another.
func (g *Server) release(c *connection) {
	g.releaseRequest(c)
	c.reset()
	g.pool.put(c)
}

func (c *connection) reset() {
	c.settings, c.writer, c.record, c.upstreamRequest = nil, clientWriter{}, report.Challenge{}, Request{}
	c.out = c.out[:0]
	if cap(c.out) > maxKeptCapacity {
		c.out = nil
	}
}

// releaseRequest drops what the client has sent: while the upstream is waited
// for, a long head is held in the form that is forwarded only.
func (g *Server) releaseRequest(c *connection) {
	c.request.Reset()
	if cap(c.buf) == longBufferSize {
		g.longBuffers.Put((*[longBufferSize]byte)(c.buf[:longBufferSize]))
	}
	c.buf = c.inlineBuf[:0]
}

// serveRequest reads the head, decides, and answers or forwards.
func (g *Server) serveRequest(c *connection) {
	length, fault, silent := g.readHead(c)
	if why := g.connections.finishReading(c, fault == reqhead.HeadTimeout); why != "" {
		c.abort()
		g.recorder.RecordRefusal(why, report.OtherClient)
		return
	}
	if silent {
		g.recorder.RecordRefusal(refusalOf(fault), report.OtherClient)
		_ = c.tcp.Close()
		return
	}
	if fault == reqhead.None {
		fault = c.request.Validate(c.settings.allowsHost, len(c.buf)-length)
	}
	if fault == reqhead.None {
		g.forward(c)
		return
	}
	c.refuse(fault, length > 0 && c.request.IsHead())
	asker := report.OtherClient
	if length > 0 {
		asker = clientKindOf(c.request.UserAgent())
	}
	g.recorder.RecordRefusal(refusalOf(fault), asker)
	g.closeConnection(c, length == 0 || c.request.HasBody())
}

// readHead reads until the head is complete. It returns the head's length, or
// 0 with the fault that ended it; silent says that the client is not there to
// read an answer, or has asked for nothing.
func (g *Server) readHead(c *connection) (length int, fault reqhead.Fault, silent bool) {
	limit := c.settings.HeadBytes
	c.buf = c.inlineBuf[:0]
	for {
		if len(c.buf) == cap(c.buf) {
			g.growBuffer(c, limit)
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

// growBuffer makes room for the next read. Long buffers go round: a flood of long
// heads must not leave as many of them behind as garbage.
func (g *Server) growBuffer(c *connection, limit int) {
	var bigger []byte
	if cap(c.buf) < longBufferSize {
		long, _ := g.longBuffers.Get().(*[longBufferSize]byte)
		bigger = long[:]
	} else {
		bigger = make([]byte, min(2*cap(c.buf), limit))
	}
	n := copy(bigger, c.buf)
	if cap(c.buf) == longBufferSize {
		g.longBuffers.Put((*[longBufferSize]byte)(c.buf[:longBufferSize]))
	}
	c.buf = bigger[:n]
}

// challengePort is where a CA asks (RFC 8555 section 8.3), and what the kernel
// leads here of.
const challengePort = 80

// forward has the upstream answer, and answers itself when that cannot.
func (g *Server) forward(c *connection) {
	begin := time.Now()
	deadline := begin.Add(c.settings.Timeout)
	_ = c.tcp.SetWriteDeadline(deadline.Add(answerWriteTimeout))
	c.out = c.request.Append(c.out[:0], c.client.Addr(), c.vip)
	c.isHead = c.request.IsHead()
	c.beginRecord(begin)
	c.setUpstreamRequest(deadline)
	g.releaseRequest(c)
	code, from, err := g.upstream.Exchange(&c.upstreamRequest, &c.writer)
	if g.finishRecord(c, code, from, err) {
		c.abort()
		return
	}
	g.closeConnection(c, false)
}

// setStage makes the question for the upstream. It refers to what outlives the request
// as it came: the head that is forwarded, and the record.
func (c *connection) setUpstreamRequest(deadline time.Time) {
	target := len(c.request.Method()) + 1 // where Append puts it
	c.upstreamRequest = Request{
		Deadline: deadline,
		VIP:      netip.AddrPortFrom(c.vip, challengePort),
		Client:   c.client,
		Head:     c.out,
		Host:     c.record.Host[:len(c.request.Hostname())],
		Target:   c.out[target : target+len(c.request.Target())],
		IsHead:   c.isHead,
		HTTP10:   c.request.Minor() == 0,
	}
}

// beginRecord begins the record of a challenge. It is not on the stack, which waits
// with the upstream: thousands of them do.
func (c *connection) beginRecord(begin time.Time) {
	c.record = report.Challenge{
		Time:        begin,
		VIP:         c.vip,
		Client:      c.client,
		Method:      methodOf(c.isHead),
		Host:        string(c.request.Host()),
		Token:       tokenHash(c.request.Token()),
		TokenPrefix: tokenPrefix(c.request.Token()),
		ClientKind:  clientKindOf(c.request.UserAgent()),
	}
}

// finishRecord ends the record and tells the client what it has not been told. It
// reports whether the client has a part of an answer only.
func (g *Server) finishRecord(c *connection, code int, from netip.AddrPort, err error) (cut bool) {
	c.record.Status, c.record.Upstream = code, from
	var why *cause.Failure
	if err != nil && !c.writer.failed {
		cut, why = c.answerUpstreamError(&c.record, err)
	}
	if c.writer.failed {
		c.record.Status = 0
	}
	c.record.Duration = time.Since(c.record.Time)
	g.recorder.RecordChallenge(c.record, why)
	return cut
}

// answerUpstreamError records what was found at the upstream, and tells the client when
// nothing else was written to it. It reports whether the client has a part of
// an answer only.
func (c *connection) answerUpstreamError(done *report.Challenge, err error) (cut bool, why *cause.Failure) {
	code, reason := 502, "the upstream could not be asked"
	cut = done.Status != 0
	var finding UpstreamError
	if errors.As(err, &finding) {
		code, reason = finding.ClientAnswer()
		cut = finding.Truncated()
		found := finding.Failure()
		done.Cause, why = finding.CauseID(), &found
	}
	if done.Status == 0 {
		done.Status = code
		c.answer(code, reason, "", c.isHead)
	}
	return cut, why
}

func methodOf(toHead bool) string {
	if toHead {
		return "HEAD"
	}
	return "GET"
}

// maxTokenPrefix bounds what a log may hold of a token.
const maxTokenPrefix = 8

// tokenPrefix is as much of the token as a log may hold: never more than half
// of it. A token that was judged is printable ASCII.
func tokenPrefix(token []byte) string {
	return string(token[:min(len(token)/2, maxTokenPrefix)])
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
