// SPDX-License-Identifier: Apache-2.0

package server

import (
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/loop"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// maxEvicted bounds the evicted connections that have not ended yet. They still
	// occupy a descriptor and memory.
	maxEvicted = 256
	// maxCandidates bounds the search for a connection that its client keeps
	// waiting.
	maxCandidates = 8
	// unreadRetryDelay is the wait when heads have arrived and their workers are
	// late. Accepting is then too far ahead of reading.
	unreadRetryDelay = time.Millisecond
	// minHeadTime is the time that every client gets for its head, even when all
	// slots are taken. The head of a validator arrives with the last packet of the
	// handshake. The value slows down only a flood that takes all default slots 50
	// times a second.
	minHeadTime = 20 * time.Millisecond
	// slotTimeout bounds a wait for a slot. A change ends it earlier.
	slotTimeout = time.Second
)

type admission uint8

const (
	admitted   admission = iota
	waits                // admitted, with a complete head, until its source has a free slot
	rejected             // its source is at its bound, and too many others wait
	overloaded           // no slot is free
)

// admit adds the new connection c in a stage, if necessary in place of another one:
//
// A source at its bound may have more connections that wait: for their heads, or with a
// complete head for a slot. A CA can begin hundreds of validations at once. A complete head
// gets the slot of a connection without one. Connections beyond a bound take no slot from
// others. There are at most half as many of them as slots.
//
// When there are as many, the source loses the connection that has waited longest for its
// head. Rejecting the newest connection would be cheaper. But a client that floods from
// behind an address translator could then lock out all others behind it, for
// example a CA. A validator sends its head with the last packet of the handshake.
// The newest connection is therefore most likely a validator's, and the oldest
// without a head least likely. The newest is rejected only if no connection of its
// source can be evicted.
//
// When all slots are taken, the same rule applies to all connections. If none can
// be evicted because all are being answered, c must wait for maxWait or until a
// connection ends. unbounded adds c without any check.
func (t *table) admit(c *connection, s stage, unbounded bool) (a admission, maxWait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.joinSource(c)
	waiting := false
	if !unbounded {
		if a, waiting, maxWait = t.makeRoom(c, s == answering, c.acceptedAt, maxEvicted); a != admitted {
			t.leaveSource(c)
			if a == overloaded {
				t.paused[c.worker] = true
			}
			return a, maxWait
		}
	}
	c.stage, c.waiting = answering, waiting
	t.count(c, 1)
	return t.place(c, s), 0
}

// place puts c into a stage. A request beyond the bound of its source waits for a slot.
// The caller holds mu.
func (t *table) place(c *connection, s stage) admission {
	waiting := c.waiting
	if s == answering && waiting {
		if !t.yield(c.source) {
			t.move(c, queued, true)
			t.grant(c.source) // noticed continues if there is one
			return waits
		}
		waiting = false
	}
	t.move(c, s, waiting)
	return admitted
}

// finishReading ends the wait for the head of c. challenge means that it is complete and is
// to be forwarded. Otherwise the worker answers at once. rejected means that c was evicted,
// and no other connection can be evicted in its place: the head of a challenge may have
// arrived after its worker had last read.
func (t *table) finishReading(c *connection, challenge bool) admission {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case c.stage == evicted && (!challenge || !t.readmit(c)):
		return rejected
	case challenge:
		return t.place(c, answering)
	default:
		t.move(c, answering, c.waiting)
		return admitted
	}
}

// readmit lets an evicted connection stay, whose head has arrived in time. Another
// connection is evicted in its place, so that the bounds hold, or c waits for a slot of its
// source. If there is no candidate for a slot of all, c takes the one that it had as an
// evicted connection. The caller holds mu.
func (t *table) readmit(c *connection) bool {
	// c leaves the evicted connections when another one joins them.
	a, waiting, _ := t.makeRoom(c, true, c.worker.Now(), maxEvicted+1)
	if a == rejected || a == overloaded && t.all.slots >= t.limit+maxEvicted {
		return false
	}
	t.move(c, answering, waiting)
	return true
}

// makeRoom evicts connections until c fits, or returns what to do with c. c is not in
// flight yet, or evicted. complete means that its head is. Candidates are connections that
// were accepted before now. limit bounds the evicted connections. The caller holds mu.
func (t *table) makeRoom(c *connection, complete bool, now time.Time, limit int) (
	a admission, waiting bool, maxWait time.Duration,
) {
	hasRoom := t.hasRoom(c.source)
	if hasRoom && t.all.slots < t.limit {
		return admitted, false, 0
	}
	if t.all.evicted >= limit {
		return overloaded, false, slotTimeout
	}
	if !hasRoom {
		if a, waiting = t.makeRoomInSource(c.source, complete, now); waiting || a != admitted {
			return a, waiting, 0
		}
	}
	// Two evictions for one connection, so that a lowered limit is reached.
	for range 2 {
		if t.all.slots < t.limit {
			break
		}
		old, wait := t.evictionCandidate(&t.lingering, &t.reading, now.Add(-minHeadTime))
		if old == nil {
			return overloaded, false, wait
		}
		t.evict(old, report.Evicted)
	}
	return admitted, false, 0
}

// makeRoomInSource makes room for a connection of a source at its bound, or has it wait
// beyond the bound. The caller holds mu.
func (t *table) makeRoomInSource(own *source, complete bool, now time.Time) (a admission, waiting bool) {
	if t.all.waiting >= t.limit/2 || own.lingering.First() != nil {
		old, _ := t.evictionCandidate(&own.lingering, &own.late, now)
		if old == nil {
			old, _ = t.evictionCandidate(&own.lingering, &own.reading, now)
		}
		if old == nil {
			return rejected, false
		}
		t.evict(old, report.SourceLimit)
	}
	// One with a complete head, which has waited longer, can have got the slot.
	return admitted, !t.hasRoom(own) && (!complete || !t.yield(own))
}

// evictionCandidate returns the connection whose client loses least: one that has
// its response, or else the one that has waited longest for its head. If the head has
// arrived and is unread, the client is not late, but its worker is. Such a
// connection moves to the end. If no connection is older than before, wait is the
// time until one is, unless something changes. The caller holds mu.
func (t *table) evictionCandidate(lingering, reading *connectionList, before time.Time) (
	c *connection, wait time.Duration,
) {
	if c := lingering.First(); c != nil {
		return c, 0
	}
	for range maxCandidates {
		c := reading.First()
		if c == nil {
			return nil, slotTimeout
		}
		if remaining := c.acceptedAt.Sub(before); remaining > 0 {
			return nil, remaining
		}
		if !loop.HasUnread(c.fd) {
			return c, 0
		}
		t.move(c, readingHead, c.waiting)
	}
	return nil, unreadRetryDelay
}

// evict ends the wait for the client of c. The worker of c does the rest, so that evict
// never waits. The caller holds mu.
func (t *table) evict(c *connection, why report.Rejection) {
	t.move(c, evicted, false)
	c.evictionReason = why
	t.grant(c.source)
	c.worker.Post(c.noticed)
}

// stageOf returns the stage of c, which another worker can change, and the reason of an
// eviction.
func (t *table) stageOf(c *connection) (stage, report.Rejection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return c.stage, c.evictionReason
}
