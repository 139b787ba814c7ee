// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/loop"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// firstReadSize is the size of the inline read buffer. The head of a validator
	// fits. A head that is never completed does not occupy the full size.
	firstReadSize = 1 << 10
	// longBufferSize is the buffer for longer heads: the default limit of a head.
	longBufferSize = 8 << 10
	// maxKeptCapacity bounds the buffers that the memory of a connection keeps.
	maxKeptCapacity = 2 << 10

	// responseWriteTimeout bounds the write of a response of this proxy. A slow reader
	// gets this much time beyond the timeout of the challenge.
	responseWriteTimeout = 2 * time.Second

	// lingerTime and lingerBytes bound the wait for a client that still sends while it gets the
	// response.
	lingerTime  = 2 * time.Second
	lingerBytes = 256 << 10
)

// connection is one client connection with its memory, which is reused for the next
// connection. It belongs to the thread of its worker, except for what table guards.
type connection struct {
	worker      *worker
	workerEntry listNode
	fd          int
	watched     bool // by the loop
	state       state
	settings    *protocol.Configure
	acceptedAt  time.Time     // start of the wait for its head
	headTimeout time.Duration // of that wait; Drain shortens it
	timer       loop.Timer
	noticed     func() // stageChanged

	// The table's mutex guards these.
	stage                              stage
	since                              time.Time        // of its stage
	evictionReason                     report.Rejection // set with stage evicted
	source                             *source          // nil while it is not in flight; only its worker changes it
	host                               *host            // of a challenge, after place
	tableEntry, sourceEntry, hostEntry listNode

	client   netip.AddrPort
	hostname string // of a challenge: the name in Host

	inlineBuf  [firstReadSize]byte
	buf        []byte // received bytes: inlineBuf, or a larger buffer
	headLength int
	head       reqhead.Request
	out        []byte // the forwarded head, or a response of this proxy
	pending    []byte // the next bytes for the client
	written    int    // of pending
	clientGone bool   // a write to the client failed
	writeBy    time.Time
	discarded  int // while draining

	expectsMore bool // the client will send more after its response

	exchange
}

func newConnection(w *worker) *connection {
	c := &connection{worker: w}
	c.timer.Expired, c.noticed = c.expired, c.stageChanged
	c.buf = c.inlineBuf[:0]
	return c
}

// to moves the connection to another state. The controller writes the report of a defect to the
// journal. It gets few of them, however often a client causes one.
func (c *connection) to(s state) {
	if !c.state.leadsTo(s) {
		if n := c.worker.server.defects.Add(1); n&(n-1) == 0 {
			fmt.Fprintf(os.Stderr, "defect: a connection went from state %d to state %d; %d so far\n", c.state, s, n)
		}
	}
	c.state = s
}

func (c *connection) isInFlight() bool { return c.source != nil }

func (c *connection) Ready(uint32) {
	switch c.state {
	case reading:
		c.read()
	case replying:
		if c.flush() {
			c.finish()
		}
	case draining:
		c.drain()
	default: // the end of a client is noticed with the response
	}
}

func (c *connection) setTimer(until time.Time) { c.worker.SetTimer(&c.timer, until) }

// await waits for the client until a time.
func (c *connection) await(until time.Time) {
	c.setTimer(until)
	c.watched = c.watched || c.worker.Watch(c.fd, c) == nil // otherwise the timer ends it
}

func (c *connection) read() {
	limit := c.settings.HeadBytes
	for {
		if len(c.buf) == cap(c.buf) {
			c.growBuffer(limit)
		}
		n, err := loop.Read(c.fd, c.buf[len(c.buf):min(cap(c.buf), limit)])
		switch {
		case errors.Is(err, unix.EAGAIN):
			c.awaitHead()
			return
		case err != nil, n == 0 && len(c.buf) == 0:
			c.reject(report.ClientGone)
			return
		case n == 0:
			c.refuse(reqhead.HeadNotTerminated)
			return
		}
		c.buf = c.buf[:len(c.buf)+n]
		var fault reqhead.Fault
		c.headLength, fault = c.head.Parse(c.buf)
		if c.headLength == 0 && fault == reqhead.None && len(c.buf) >= limit {
			fault = c.head.Overflow()
		}
		switch {
		case fault != reqhead.None:
			c.refuse(fault)
			return
		case c.headLength > 0:
			c.judge()
			return
		}
	}
}

// growBuffer makes room for the next read.
func (c *connection) growBuffer(limit int) {
	larger := make([]byte, len(c.buf), min(max(2*cap(c.buf), longBufferSize), limit))
	copy(larger, c.buf)
	c.buf = larger
}

// releaseRequest releases the received bytes. While the upstream is awaited, only
// the forwarded form of a long head stays in memory.
func (c *connection) releaseRequest() {
	c.head.Reset()
	c.buf = c.inlineBuf[:0]
}

func (c *connection) judge() {
	c.hostname = c.worker.hostOf(&c.head)[:len(c.head.Hostname())]
	fault := c.head.Validate(c.allowsHost, len(c.buf)-c.headLength)
	switch {
	case fault != reqhead.None:
		c.refuse(fault)
	case c.isInFlight():
		c.continueWith(c.worker.server.table.finishReading(c, true))
	default:
		c.admit(false)
	}
}

// allowsHost reports whether challenges for a name, or for an IPv6 address in brackets, are
// forwarded.
func (c *connection) allowsHost(name []byte) bool {
	name = bytes.Trim(name, "[]")
	hosts := c.settings.Hosts
	return len(hosts) == 0 || slices.ContainsFunc(hosts, func(host string) bool { return host == string(name) })
}

func (c *connection) awaitHead() {
	if !c.isInFlight() {
		c.admit(false)
		return
	}
	switch stage, reason := c.worker.server.table.stageOf(c); {
	case stage == evicted:
		c.abort()
		c.reject(reason)
	case c.worker.Now().Before(c.headDeadline()):
		c.await(c.headDeadline())
	case len(c.buf) == 0:
		c.reject(report.HeadTimeout)
	default:
		c.refuse(reqhead.HeadTimeout)
	}
}

func (c *connection) headDeadline() time.Time { return c.acceptedAt.Add(c.headTimeout) }

// admit requests a slot for a new connection, whose head is complete or not.
func (c *connection) admit(unbounded bool) {
	stage := readingHead
	if c.headLength > 0 {
		stage = answering
	}
	a, maxWait := c.worker.server.table.admit(c, stage, unbounded)
	switch {
	case a == overloaded:
		// New connections are queued in the kernel's backlog meanwhile.
		c.worker.held = append(c.worker.held, c)
		c.worker.pause(maxWait)
	case a == admitted && stage == readingHead:
		c.await(c.headDeadline())
	default:
		c.continueWith(a, maxWait)
	}
}

func (c *connection) continueWith(a admission, maxWait time.Duration) {
	switch a {
	case admitted:
		c.forward()
	case waits:
		c.to(queueing)
		c.awaitSlot(maxWait)
	default:
		_, reason := c.worker.server.table.stageOf(c)
		if reason == "" {
			reason = report.SourceLimit
		}
		c.abort()
		c.reject(reason)
	}
}

// awaitSlot waits for a slot, until the next exchange may be ended for it.
func (c *connection) awaitSlot(maxWait time.Duration) {
	deadline := c.headDeadline()
	if next := c.worker.Now().Add(maxWait); next.Before(deadline) {
		deadline = next
	}
	c.await(deadline)
}

// claimSlot continues the wait for a slot.
func (c *connection) claimSlot() {
	switch maxWait, short := c.worker.server.table.claim(c); {
	case short == "": // stageChanged follows
	case c.worker.Now().Before(c.headDeadline()):
		c.awaitSlot(maxWait)
	default:
		c.abort()
		c.reject(short)
	}
}

// stageChanged continues after another connection evicted this one or left it a slot or the next
// turn. It may be late: c can be another connection by now.
func (c *connection) stageChanged() {
	if !c.isInFlight() {
		return
	}
	switch stage, reason := c.worker.server.table.stageOf(c); {
	case stage == evicted:
		c.endEarly(reason)
	case stage == answering && c.state == queueing:
		c.forward()
	case stage == queued && c.state == queueing:
		c.claimSlot()
	}
}

// endEarly ends an evicted connection.
func (c *connection) endEarly(reason report.Rejection) {
	switch c.state {
	case reading:
		c.read() // perhaps its head arrived meanwhile
	case queueing:
		c.abort()
		c.reject(reason)
	case connecting, sending, awaiting, delegated:
		c.giveUp()
	case replying:
		c.abort() // a part of the response may be sent already
		c.clientGone = true
		c.finish()
	case draining:
		c.abort()
		c.leave()
	default:
	}
}

func (c *connection) expired() {
	switch c.state {
	case reading:
		c.read() // perhaps its head arrived, and its worker is late
	case queueing:
		c.claimSlot()
	case connecting:
		c.exchangeFailed(upstream.DialError(c.direct.Addr, os.ErrDeadlineExceeded))
	case sending, awaiting:
		c.linkFailed(os.ErrDeadlineExceeded)
	case replying:
		c.clientGone = true
		c.finish()
	default:
		c.leave()
	}
}

// refuse answers a request that is not forwarded.
func (c *connection) refuse(fault reqhead.Fault) {
	parsed := c.headLength > 0
	kind := report.OtherClient
	if parsed {
		kind = clientKindOf(c.head.UserAgent())
	}
	response := fault.Response()
	if fault == reqhead.NotChallenge && c.head.IsTest() {
		response.Field = fmt.Sprintf("\r\n%s: %016x", reqhead.InstanceField, c.settings.Instance)
		c.worker.server.recorder.RecordTestRequest(c.client.Addr(), loop.LocalAddr(c.fd).Addr())
	} else {
		c.worker.server.recorder.RecordRejection(response.Rejection, kind)
	}
	if c.isInFlight() {
		c.worker.server.table.finishReading(c, false)
	}
	c.expectsMore = !parsed || c.head.HasBody()
	c.respond(response, parsed && c.head.IsHead())
}

// reject ends a connection without a response: its client is gone, sent nothing, or gets a
// reset.
func (c *connection) reject(reason report.Rejection) {
	c.worker.server.recorder.RecordRejection(reason, report.OtherClient)
	c.leave()
}

// flush writes the pending bytes. It reports whether the client got them, or is gone. Otherwise
// its buffer is full.
func (c *connection) flush() bool {
	for c.written < len(c.pending) && !c.clientGone {
		n, err := loop.Write(c.fd, c.pending[c.written:])
		if errors.Is(err, unix.EAGAIN) {
			return false
		}
		c.written += n
		c.clientGone = err != nil
	}
	return true
}

// end ends the connection after a response. If bytes of the client are unread or still
// arrive, close(2) sends a reset. The reset can discard the response before the client
// reads it (RFC 9112 section 9.6). The connection is then closed in two steps.
func (c *connection) end() {
	if !c.clientGone && (c.expectsMore || loop.HasUnread(c.fd)) && c.linger() {
		return
	}
	c.leave()
}

// linger shuts down the sending side and reads, within bounds, until the client closes its
// side. Such a client got its response and is evicted first.
func (c *connection) linger() bool {
	if loop.CloseWrite(c.fd) != nil {
		return false
	}
	t := c.worker.server.table
	if c.isInFlight() {
		if !t.startLingering(c) {
			return false
		}
	} else if a, _ := t.admit(c, lingering, false); a != admitted {
		return false
	}
	c.to(draining)
	c.await(c.worker.Now().Add(lingerTime)) // once: what the client sends does not extend it
	c.drain()
	return true
}

func (c *connection) drain() {
	for c.discarded < lingerBytes {
		n, err := loop.Read(c.fd, c.worker.scratch[:])
		if errors.Is(err, unix.EAGAIN) {
			return
		}
		if c.discarded += n; n == 0 {
			break
		}
	}
	c.leave()
}

// abort closes an evicted connection with a reset. A reset
// leaves neither unread bytes nor a wait for the peer in this host's kernel
// (tcp(7), SO_LINGER). A client sees at once that it can retry.
func (c *connection) abort() {
	if c.fd >= 0 {
		loop.ResetOnClose(c.fd)
		c.worker.Close(c.fd)
		c.fd = -1
	}
}

// cut ends the connection without a response, and records it unless that happened.
func (c *connection) cut() {
	switch {
	case c.state == draining: // recorded
	case c.forwarded:
		c.clientGone = true
		c.finishRecord()
	case c.state == reading || c.state == queueing:
		c.worker.server.recorder.RecordRejection(report.ClientGone, report.OtherClient)
	default: // replying: refuse recorded it
	}
	c.leave()
}

// leave closes the connection, and keeps its memory for the next one. A delegate may still
// use the memory: its end calls leave again.
func (c *connection) leave() {
	w := c.worker
	w.StopTimer(&c.timer)
	if c.isInFlight() {
		w.server.table.remove(c)
	}
	if c.fd >= 0 {
		w.Close(c.fd)
		c.fd = -1
	}
	c.closeLink()
	c.workerEntry.Remove()
	c.state = closed
	if !c.hasDelegate {
		c.release()
	}
}

// kept returns a buffer without content, for the next connection.
func kept(buf []byte) []byte {
	if cap(buf) > maxKeptCapacity {
		return nil
	}
	return buf[:0]
}

func (c *connection) release() {
	c.releaseRequest()
	if c.relay != nil {
		c.relay.Reset()
		relays.Put(c.relay)
	}
	c.settings, c.exchange, c.pending, c.hostname = nil, exchange{}, nil, ""
	c.watched, c.clientGone, c.expectsMore, c.written, c.discarded, c.headLength = false, false, false, 0, 0, 0
	c.out, c.evictionReason = kept(c.out), ""
	if w := c.worker; len(w.free) < maxFree {
		w.free = append(w.free, c)
	}
}
