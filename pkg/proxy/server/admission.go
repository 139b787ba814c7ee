// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/loop"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// maxEvicted bounds the evicted connections that did not end yet. They still occupy
	// descriptors and memory.
	maxEvicted = 256
	// maxCandidates bounds the search for a connection that its client keeps
	// waiting.
	maxCandidates = 8
	// unreadRetryDelay is the wait when heads arrived and their workers are
	// late. Accepting is then too far ahead of reading.
	unreadRetryDelay = time.Millisecond
	// minHeadTime is the time that every client gets for its head, even when the waiting room
	// is full. The head of a validator arrives with the last packet of the
	// handshake. The value slows down only a flood that fills the default waiting room 50
	// times a second.
	minHeadTime = 20 * time.Millisecond
	// minExchangeTime is the time that the ingress gets for a challenge, even when all slots
	// are taken and others wait. A shorter one would end exchanges that a busy ingress is about
	// to answer. With a longer one, a flood from very many sources, which get slots in turn,
	// could keep a CA waiting.
	minExchangeTime = 250 * time.Millisecond
	// minExchangeTimeOfSource is the same when a source uses all of its own slots. A CA can
	// begin hundreds of validations at once, and a busy ingress needs that time for them. If
	// many hosts wait, the time is shorter, so that each host soon gets its turn.
	minExchangeTimeOfSource = 3 * time.Second
	// minExchangeTimeOfBusyHost is the same if one host uses more than an equal part of these
	// slots.
	minExchangeTimeOfBusyHost = time.Second
	// slotTimeout bounds a wait for a slot. A change ends it earlier.
	slotTimeout = time.Second
)

type admission uint8

const (
	admitted   admission = iota
	waits                // in the waiting room, with a complete head, until it gets a slot
	rejected             // the waiting room is full, and c got its response or was evicted
	overloaded           // the waiting room is full
)

// admit adds the new connection c in a stage, if necessary by evicting another one. unbounded
// adds c without any check.
//
// Only a challenge takes a slot. It gets one as soon as its head is complete, or waits in the
// queue of its source. If all slots are taken, or all of its source, claim ends an exchange
// that the ingress keeps waiting. So neither a slow route nor a client with many requests for
// one route occupies the slots of others for long: a host gives slots to others until all use
// equally many. Requests that are not forwarded need no slot.
//
// The waiting room offers half as many places as there are slots: for connections without a
// complete head, for queued challenges, and for answered clients that still send. When it is
// full, the connection that waited longest is evicted: of the same source if that uses its
// whole part, or else of another source that uses more. Rejecting the newest connection would
// be cheaper. But a client that floods from behind an address translator could then lock out
// all others behind it, for example a CA. A validator sends its head with the last packet of
// the handshake. The newest connection is therefore most likely a validator's, and the oldest
// without a head least likely. If no source uses more than its part, and none waited for long
// enough, c must wait for maxWait or until a connection ends.
func (t *table) admit(c *connection, s stage, unbounded bool) (a admission, maxWait time.Duration) {
	t.lock(c)
	defer t.mu.Unlock()
	t.joinSource(c)
	if !unbounded && (s != answering || !t.hasSlot(c.source)) {
		if a, maxWait = t.makeRoom(c.source, s == lingering); a != admitted {
			t.leave(c)
			if a == overloaded {
				t.paused[c.worker] = true
			}
			return a, maxWait
		}
	}
	switch {
	case s != answering:
		t.list(c, s)
		return admitted, 0
	case unbounded:
		t.joinHost(c)
		t.list(c, answering)
		return admitted, 0
	default:
		return t.place(c)
	}
}

// lock begins an operation of the worker of c.
func (t *table) lock(c *connection) {
	t.mu.Lock()
	t.now = t.clock(c)
}

// hasSlot reports whether a challenge of a source gets a slot at once. The caller holds mu.
func (t *table) hasSlot(s *source) bool { return t.all.slots() < t.limit && t.hasRoom(s) }

// place gives a challenge a slot, or queues it until maxWait passes or noticed is called. The
// caller holds mu, and took c out of its stage.
func (t *table) place(c *connection) (a admission, maxWait time.Duration) {
	t.joinHost(c)
	if t.hasSlot(c.source) {
		t.list(c, answering)
		return admitted, 0
	}
	t.list(c, queued)
	maxWait, _ = t.claimSlot(c)
	return waits, maxWait
}

// claim gives a queued challenge a slot in its turn, and ends exchanges that the ingress keeps
// waiting for it. maxWait is the time until another one may be ended, unless something changes.
// short is the bound that keeps c waiting, or empty if c does not wait any more.
func (t *table) claim(c *connection) (maxWait time.Duration, short report.Rejection) {
	t.lock(c)
	defer t.mu.Unlock()
	return t.claimSlot(c)
}

// claimSlot is claim for a caller that holds mu. While the slots of a source are short, only
// the challenge whose turn is next can end an exchange. An exchange ends for another one of its
// host only if its source uses far more slots. Otherwise all exchanges of an overloaded ingress
// would end before their responses.
func (t *table) claimSlot(c *connection) (maxWait time.Duration, short report.Rejection) {
	for c.stage == queued {
		var old *connection
		enough, s := minExchangeTime, c.source
		if t.hasRoom(s) {
			old, short = t.longestExchange(), report.Evicted
		} else if short = report.SourceLimit; c == s.next() {
			old, enough = s.longestExchange()
		}
		switch {
		case old == nil:
			return slotTimeout, short
		case old.host == c.host && 2*s.slots() >= old.source.slots():
			if short == report.SourceLimit {
				s.passTurn()
			}
			return slotTimeout, short
		case t.all.counts[evicted] >= maxEvicted:
			return minHeadTime, short
		}
		if remaining := old.since.Add(enough).Sub(t.now); remaining > 0 {
			return min(remaining, minExchangeTime), short // enough depends on later challenges
		}
		t.evict(old, short) // which gives its slot to the next challenge
	}
	return 0, ""
}

// longestExchange returns the exchange that waited longest, of the busiest host if one is busy.
// Bytes of a response change nothing: a route that sends them one by one would keep its slots.
// A client can invent hosts; without a busy one, all exchanges get the same time. The caller
// holds mu.
func (t *table) longestExchange() *connection {
	var busiest *host
	for h := range t.busy.Backward { // busyPart at most
		if busiest == nil || h.count > busiest.count {
			busiest = h
		}
	}
	if busiest == nil {
		return t.all.lists[answering].First()
	}
	return busiest.exchanges.First()
}

// longestExchange is the same among the exchanges of one source. enough is the time that the exchange
// gets. The caller holds the mutex of the table.
func (s *source) longestExchange() (old *connection, enough time.Duration) {
	count := s.slots() / busyPart
	for c := range s.lists[answering].Backward {
		c.host.ofSource++
	}
	for c := range s.lists[answering].Backward {
		if n := c.host.ofSource; n > count || old != nil && n == count {
			old, count = c, n
		}
	}
	for c := range s.lists[answering].Backward {
		c.host.ofSource = 0
	}
	enough = minExchangeTimeOfBusyHost
	if old == nil {
		old, enough = s.lists[answering].First(), minExchangeTimeOfSource
	}
	perTurn := 3 * minExchangeTime * time.Duration(s.slots()) / time.Duration(s.flowCount)
	return old, max(minExchangeTime, min(enough, perTurn))
}

// finishReading ends the wait for the head of c. challenge means that it is complete and is to
// be forwarded. Otherwise the worker answers at once. rejected means that c was evicted, and no
// other connection can be evicted in its place: the head of a challenge may have arrived after
// its worker last read.
func (t *table) finishReading(c *connection, challenge bool) (a admission, maxWait time.Duration) {
	t.lock(c)
	defer t.mu.Unlock()
	switch {
	case !challenge && c.stage == evicted:
		return rejected, 0
	case !challenge:
		t.move(c, lingering)
		return admitted, 0
	}
	wasEvicted := c.stage == evicted
	t.unlist(c)
	if wasEvicted && !t.hasSlot(c.source) {
		if a, _ = t.makeRoom(c.source, false); a != admitted {
			t.list(c, evicted)
			return rejected, 0
		}
	}
	return t.place(c)
}

// room returns the number of places in the waiting room.
func (t *table) room() int { return (t.limit + 1) / 2 }

// part returns the number of places that each source is sure of.
func (t *table) part() int { return (t.perSource + 1) / 2 }

// makeRoom evicts connections until the waiting room has a free place for a connection of a
// source, or returns the reason why not. answered means that the client of the connection got
// its response: only another answered connection is evicted for it. The caller holds mu.
func (t *table) makeRoom(s *source, answered bool) (a admission, maxWait time.Duration) {
	// Two evictions for one connection, so that a lowered limit is reached.
	for range 2 {
		if t.all.waiting() < t.room() {
			break
		}
		if t.all.counts[evicted] >= maxEvicted {
			return overloaded, slotTimeout
		}
		greedy := t.greedy.First()
		if t.perSource > 0 && s.waiting() >= t.part() {
			greedy = s
		}
		old, wait, why := greedy.oldest(), time.Duration(0), report.SourceLimit
		if greedy == nil {
			old, wait = t.evictionCandidate()
			why = report.Evicted
		}
		switch {
		case old == nil:
			return overloaded, wait
		case answered && old.stage != lingering:
			return rejected, 0
		}
		t.evict(old, why)
	}
	return admitted, 0
}

// oldest returns the connection of s in the waiting room whose client loses least: one that got
// its response, or else the one that waited longest for its head, or else for a slot. Its head
// may be unread, because its worker is late. finishReading then admits it. Newer connections of
// the source must not end before their clients can send. The caller holds the mutex of the
// table.
func (s *source) oldest() *connection {
	if s == nil {
		return nil
	}
	return cmp.Or(s.lists[lingering].First(), s.lists[readingHead].First(), s.lists[queued].First())
}

// evictionCandidate returns the same of all sources. If the head arrived and is unread, the
// client is not late, but its worker is. Such a connection moves to the end. If none waited for
// minHeadTime, wait is the time until one does, unless something changes. The caller holds mu.
func (t *table) evictionCandidate() (c *connection, wait time.Duration) {
	lists, before := &t.all.lists, t.now.Add(-minHeadTime)
	if c := lists[lingering].First(); c != nil {
		return c, 0
	}
	wait = slotTimeout
	for range maxCandidates {
		c := lists[readingHead].First()
		if c == nil {
			break
		}
		if remaining := c.acceptedAt.Sub(before); remaining > 0 {
			wait = remaining
			break
		}
		if !loop.HasUnread(c.fd) {
			return c, 0
		}
		wait = unreadRetryDelay
		c.tableEntry.Remove()
		lists[readingHead].PushBack(&c.tableEntry, c) // its source keeps the order
	}
	if c = lists[queued].First(); c == nil {
		return nil, wait
	}
	if remaining := c.since.Sub(before); remaining > 0 {
		return nil, min(wait, remaining)
	}
	return c, 0
}

// evict ends the wait for the client of c, or for the ingress. The worker of c does the rest, so
// that evict never waits. The caller holds mu.
func (t *table) evict(c *connection, why report.Rejection) {
	t.move(c, evicted)
	c.evictionReason = why
	t.grant()
	c.worker.Post(c.noticed)
}

// stageOf returns the stage of c, which another worker can change, and the reason of an
// eviction.
func (t *table) stageOf(c *connection) (stage, report.Rejection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return c.stage, c.evictionReason
}
