// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/tcp"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// firstReadSize is the size of the inline read buffer. The head of a validator
	// fits. A head that is never completed does not occupy the full size.
	firstReadSize = 1 << 10
	// longBufferSize is the buffer for longer heads: the default limit of a head.
	longBufferSize = 8 << 10
	// maxKeptCapacity bounds the buffers that a pooled connection keeps.
	maxKeptCapacity = 2 << 10

	// responseWriteTimeout bounds the write of a response of this proxy. A slow reader
	// gets this much time beyond the timeout of the challenge.
	responseWriteTimeout = 2 * time.Second

	// lingerTime and lingerBytes bound the wait for a client that still sends while
	// the response is on its way.
	lingerTime  = 2 * time.Second
	lingerBytes = 256 << 10
)

// connection is one client connection with its memory, which is reused for the next
// connection.
type connection struct {
	tcp          tcp.Conn
	settings     *Settings
	acceptedAt   time.Time // start of the wait for its head
	headDeadline time.Time

	// connectionTable's mutex guards these.
	stage                   stage
	evictionReason          report.Rejection // set with stage evicted
	source                  *source          // nil while PerSource is 0
	tableEntry, sourceEntry listNode

	vip    netip.Addr
	client netip.AddrPort

	inlineBuf       [firstReadSize]byte
	buf             []byte // received bytes: inlineBuf, or a larger buffer from longBuffers
	request         reqhead.Request
	out             []byte // the next bytes to write
	upstreamRequest upstream.Request
	isHead          bool // the method of the challenge is HEAD
	record          report.Challenge
	selfTest        *protocol.SelfTest // that the request belongs to, or nil
	writer          clientWriter
}

// clientWriter records whether a write to the client failed. Such an error is not
// the upstream's fault.
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

// recordAddresses records both ends of an accepted connection, and prepares the writer
// for the client.
func (c *connection) recordAddresses() {
	c.writer = clientWriter{tcp: &c.tcp}
	c.vip = c.tcp.Local().Addr()
	c.client = c.tcp.Remote()
}

// start handles the connection in a new goroutine or rejects it. If no slot is
// free, start returns what to wait for.
func (s *Server) start(c *connection, unbounded bool) admission {
	c.settings = s.settings.Load()
	c.acceptedAt = time.Now()
	c.headDeadline = c.acceptedAt.Add(c.settings.HeadTimeout)
	// Set before admit, because an eviction shortens this deadline.
	_ = c.tcp.SetReadDeadline(c.headDeadline)
	a := s.connections.admit(c, unbounded)
	switch {
	case a.rejected:
		c.abort()
		s.release(c)
		s.recorder.RecordRejection(report.SourceLimit, report.OtherClient)
	case a.maxWait == 0:
		go s.handle(c)
	}
	return a
}

// nextConnection returns a connection that has ended, so that its memory is reused, or
// a new one.
func (s *Server) nextConnection() *connection {
	if c, is := s.pool.Get().(*connection); is {
		return c
	}
	return newConnection()
}

func (s *Server) handle(c *connection) {
	s.serveRequest(c)
	s.connections.remove(c)
	s.release(c)
}

func (s *Server) release(c *connection) {
	s.releaseRequest(c)
	c.reset()
	s.pool.Put(c)
}

func (c *connection) reset() {
	c.settings, c.writer, c.record, c.upstreamRequest, c.selfTest = nil, clientWriter{}, report.Challenge{}, upstream.Request{}, nil
	c.out = c.out[:0]
	if cap(c.out) > maxKeptCapacity {
		c.out = nil
	}
}

// releaseRequest releases the received bytes. While the upstream is awaited, only
// the forwarded form of a long head stays in memory.
func (s *Server) releaseRequest(c *connection) {
	c.request.Reset()
	if cap(c.buf) == longBufferSize {
		s.longBuffers.Put((*[longBufferSize]byte)(c.buf[:longBufferSize]))
	}
	c.buf = c.inlineBuf[:0]
}

// serveRequest reads the head and validates it. It then rejects or forwards the request.
func (s *Server) serveRequest(c *connection) {
	length, fault, silent := s.readHead(c)
	if reason := s.finishReading(c, fault == reqhead.None); reason != "" {
		c.abort()
		s.recorder.RecordRejection(reason, report.OtherClient)
		return
	}
	if silent {
		s.recorder.RecordRejection(rejectionOf(fault), report.OtherClient)
		_ = c.tcp.Close()
		return
	}
	if fault == reqhead.None {
		fault = c.request.Validate(c.settings.allowsHost, len(c.buf)-length)
	}
	if fault == reqhead.None {
		s.forward(c)
		return
	}
	c.reject(fault, length > 0 && c.request.IsHead())
	kind := report.OtherClient
	if length > 0 {
		kind = clientKindOf(c.request.UserAgent())
	}
	s.recorder.RecordRejection(rejectionOf(fault), kind)
	s.closeConnection(c, length == 0 || c.request.HasBody())
}

// finishReading ends the wait for the head of c, and returns why c must end, or an empty
// value. An evicted connection with a complete head waits for a slot until the deadline
// of its head: its goroutine may have been late, not its client.
func (s *Server) finishReading(c *connection, complete bool) report.Rejection {
	for {
		reason, changed := s.connections.finishReading(c, complete)
		left := time.Until(c.headDeadline)
		if changed == nil || left <= 0 {
			return reason
		}
		waitForChange(context.Background(), changed, left)
	}
}

// readHead reads until the head is complete. It returns the length of the head, or
// 0 and the fault that ended the read. silent means that the client is gone or has
// sent nothing, so that no response is written.
func (s *Server) readHead(c *connection) (length int, fault reqhead.Fault, silent bool) {
	limit := c.settings.HeadBytes
	c.buf = c.inlineBuf[:0]
	for {
		if len(c.buf) == cap(c.buf) {
			s.growBuffer(c, limit)
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

// growBuffer makes room for the next read. Long buffers are pooled, so that a flood
// of long heads does not leave the same number of them as garbage.
func (s *Server) growBuffer(c *connection, limit int) {
	var larger []byte
	if cap(c.buf) < longBufferSize {
		long, _ := s.longBuffers.Get().(*[longBufferSize]byte)
		larger = long[:]
	} else {
		larger = make([]byte, min(2*cap(c.buf), limit))
	}
	n := copy(larger, c.buf)
	if cap(c.buf) == longBufferSize {
		s.longBuffers.Put((*[longBufferSize]byte)(c.buf[:longBufferSize]))
	}
	c.buf = larger[:n]
}

// challengePort is the port that a CA connects to (RFC 8555 section 8.3). nftables
// replaces it by the port of this proxy.
const challengePort = 80

// forward sends the request to the upstream. Without a response from there, forward
// answers.
func (s *Server) forward(c *connection) {
	begin := time.Now()
	deadline := begin.Add(c.settings.Timeout)
	_ = c.tcp.SetWriteDeadline(deadline.Add(responseWriteTimeout))
	c.out = c.request.Append(c.out[:0], c.client.Addr(), c.vip)
	c.isHead = c.request.IsHead()
	c.beginRecord(begin)
	c.selfTest = s.takeSelfTest(c)
	c.setUpstreamRequest(deadline)
	s.releaseRequest(c)
	code, from, err := s.upstream.Exchange(&c.upstreamRequest, &c.writer)
	if s.finishRecord(c, code, from, err) {
		c.abort()
		return
	}
	s.closeConnection(c, false)
}

// setUpstreamRequest fills the request for the upstream. It refers only to memory
// that outlives the received head: the forwarded head and the record.
func (c *connection) setUpstreamRequest(deadline time.Time) {
	target := len(c.request.Method()) + 1 // as Append writes it
	c.upstreamRequest = upstream.Request{
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

// beginRecord starts the record of a challenge. The record is not on the stack,
// because thousands of stacks can wait for the upstream.
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

// finishRecord completes the record. If the client has no response, finishRecord
// writes one. It reports whether the client has only a part of a response.
func (s *Server) finishRecord(c *connection, code int, from netip.AddrPort, err error) (truncated bool) {
	c.record.Status, c.record.Upstream = code, from
	var failure *cause.Failure
	if err != nil && !c.writer.failed {
		truncated, failure = c.answerUpstreamError(&c.record, err)
	}
	if c.writer.failed {
		c.record.Status = 0
	}
	if c.selfTest != nil {
		s.recorder.RecordSelfTest(protocol.SelfTested{ID: c.selfTest.ID, Status: c.record.Status, Upstream: from, Failure: failure})
		return truncated
	}
	c.record.Duration = time.Since(c.record.Time)
	s.recorder.RecordChallenge(c.record, failure)
	return truncated
}

// answerUpstreamError records the error of the upstream, and answers the client if
// nothing was written to it. It reports whether the client has only a part of a
// response.
func (c *connection) answerUpstreamError(record *report.Challenge, err error) (truncated bool, failure *cause.Failure) {
	code, reason := 502, "the upstream request failed"
	truncated = record.Status != 0
	var failed *upstream.Error
	if errors.As(err, &failed) {
		id, f := string(failed.Cause), failed.Failure()
		code, reason, truncated = failed.ClientStatus, cause.Reply(id), failed.Truncated()
		record.Cause, failure = id, &f
	}
	if record.Status == 0 {
		record.Status = code
		c.writeResponse(upstreamFailed(code, reason), c.isHead)
	}
	return truncated, failure
}

func methodOf(isHead bool) string {
	if isHead {
		return "HEAD"
	}
	return "GET"
}

// maxTokenPrefix bounds the part of a token that a log may contain.
const maxTokenPrefix = 8

// tokenPrefix returns the part of the token that a log may contain: at most half of
// it. A validated token is printable ASCII.
func tokenPrefix(token []byte) string {
	return string(token[:min(len(token)/2, maxTokenPrefix)])
}

func rejectionOf(f reqhead.Fault) report.Rejection {
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
