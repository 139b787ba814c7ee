// SPDX-License-Identifier: Apache-2.0

package server

import (
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// maxEvicted bounds the evicted connections that have not ended yet. They still
	// occupy a descriptor and memory.
	maxEvicted = 256
	// maxCandidates bounds the search for a connection that its client keeps
	// waiting.
	maxCandidates = 8
	// unreadRetryDelay is the wait when heads have arrived and their goroutines are
	// late. The accept loop is then too far ahead of them.
	unreadRetryDelay = time.Millisecond
	// minHeadTime is the time that every client gets for its head, even when all
	// slots are taken. The head of a validator arrives with the last packet of the
	// handshake. The value slows down only a flood that takes all default slots 50
	// times a second.
	minHeadTime = 20 * time.Millisecond
)

type admission struct {
	rejected bool            // its source is at its bound, with no candidate for eviction
	changed  <-chan struct{} // closed when a slot may be free
	maxWait  time.Duration   // the longest wait for changed; 0: c is admitted or rejected
}

// admit adds the new connection c, if necessary in place of another one:
//
// A source at its bound loses the connection that has waited longest for its head.
// Rejecting the newest connection would be cheaper. But a client that floods from
// behind an address translator could then lock out all others behind it, for
// example a CA. A validator sends its head with the last packet of the handshake.
// The newest connection is therefore most likely a validator's, and the oldest
// without a head least likely. The newest is rejected only if no connection of its
// source can be evicted.
//
// When all slots are taken, the same rule applies to all connections. If none can
// be evicted because all are being answered, c must wait.
//
// unbounded adds c without any check.
func (t *connectionTable) admit(c *connection, unbounded bool) admission {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !unbounded {
		if a, in := t.makeRoom(c, c.acceptedAt, maxEvicted); !in {
			return a
		}
	}
	t.count++
	if t.perSource > 0 {
		t.joinSource(c)
	}
	t.setStage(c, readingHead)
	return admission{}
}

// readmit lets an evicted connection stay, whose head has arrived in time. Another
// connection is evicted in its place, so that the bounds hold. It reports false if
// there is no candidate. The caller holds mu.
func (t *connectionTable) readmit(c *connection) bool {
	// c leaves the evicted connections when another one joins them.
	if _, made := t.makeRoom(c, time.Now(), maxEvicted+1); !made {
		return false
	}
	t.uncountEvicted(c)
	return true
}

// makeRoom evicts connections until c fits, or returns what to do with c. c is not in
// flight yet, or evicted. Candidates are connections that were accepted before now.
// limit bounds the evicted connections. The caller holds mu.
func (t *connectionTable) makeRoom(c *connection, now time.Time, limit int) (a admission, made bool) {
	var own *source
	if t.perSource > 0 {
		own = t.sources[sourceKeyOf(c.client.Addr())]
	}
	sourceFull := own != nil && own.count-own.evicted >= t.perSource
	if !sourceFull && t.count-t.evicted < t.limit {
		return admission{}, true
	}
	if t.evicted >= limit {
		return admission{changed: t.changeSignal(), maxWait: acceptTimeout}, false
	}
	if sourceFull {
		old, _ := t.evictionCandidate(own.lingering, own.reading, now)
		if old == nil {
			return admission{rejected: true}, false
		}
		t.evict(old, report.SourceLimit)
	}
	// Two evictions for one connection, so that a lowered limit is reached.
	for range 2 {
		if t.count-t.evicted < t.limit {
			return admission{}, true
		}
		old, wait := t.evictionCandidate(t.lingering, t.reading, now.Add(-minHeadTime))
		if old == nil {
			return admission{changed: t.changeSignal(), maxWait: wait}, false
		}
		t.evict(old, report.Evicted)
	}
	return admission{}, true
}

// evictionCandidate returns the connection whose client loses least: one that has
// its response, or else the one that has waited longest for its head. If the head has
// arrived and is unread, the client is not late, but its goroutine is. Such a
// connection moves to the end. If no connection is older than before, wait is the
// time until one is, unless something changes. The caller holds mu.
func (t *connectionTable) evictionCandidate(lingering, waiting *connectionList, before time.Time) (c *connection, wait time.Duration) {
	if c := lingering.oldest(); c != nil {
		return c, 0
	}
	for range maxCandidates {
		c := waiting.oldest()
		if c == nil {
			return nil, acceptTimeout
		}
		if remaining := c.acceptedAt.Sub(before); remaining > 0 {
			return nil, remaining
		}
		if !c.tcp.HasUnread() {
			return c, 0
		}
		t.setStage(c, readingHead)
	}
	return nil, unreadRetryDelay
}

// evict ends the wait for the client of c. The goroutine of c does the rest, so
// that evict never waits. The caller holds mu.
func (t *connectionTable) evict(c *connection, why report.Rejection) {
	t.setStage(c, evicted)
	c.evictionReason = why
	t.evicted++
	if c.source != nil {
		c.source.evicted++
	}
	_ = c.tcp.SetReadDeadline(time.Unix(1, 0))
}

// uncountEvicted removes c from the number of evicted connections. The caller holds
// mu.
func (t *connectionTable) uncountEvicted(c *connection) {
	t.evicted--
	if c.source != nil {
		c.source.evicted--
	}
}
