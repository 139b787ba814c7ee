// SPDX-License-Identifier: Apache-2.0

package server

import (
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// stage is what a connection in flight waits for.
type stage uint8

const (
	readingHead stage = iota // waits for its head
	answering                // waits for the upstream, or for the write of its response
	lingering                // has its response and waits for the client to close; see closeConnection
	evicted                  // must end; its goroutine has not noticed yet
)

// connectionTable holds the connections in flight and enforces their bounds. Each
// operation on one connection takes constant time and allocates nothing.
type connectionTable struct {
	mu        sync.Mutex
	limit     int
	perSource int // 0: no bound
	count     int // in flight
	evicted   int // of these, in stage evicted
	// Each connection is in one of these lists. The first one has waited longest.
	reading, lingering, busy *connectionList

	sources    map[sourceKey]*source
	sourcePool sync.Pool     // of *source
	changed    chan struct{} // closed when a connection ends or lingers, or the limit changes; nil while nobody waits
}

func newConnectionTable() *connectionTable {
	return &connectionTable{
		reading: newConnectionList(), lingering: newConnectionList(), busy: newConnectionList(),
		sources:    make(map[sourceKey]*source),
		sourcePool: sync.Pool{New: func() any { return &source{reading: newConnectionList(), lingering: newConnectionList()} }},
	}
}

func (t *connectionTable) setLimits(all, perSource int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit, t.perSource = all, perSource
	t.signalChange()
}

// inFlight returns the number of connections in flight, and a channel that is
// closed when the number changes.
func (t *connectionTable) inFlight() (n int, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count, t.changeSignal()
}

// setStage moves c to the lists of a stage. The caller holds mu.
func (t *connectionTable) setStage(c *connection, s stage) {
	c.stage = s
	c.tableEntry.remove()
	c.sourceEntry.remove()
	switch s {
	case readingHead:
		t.reading.pushBack(&c.tableEntry)
		if c.source != nil {
			c.source.reading.pushBack(&c.sourceEntry)
		}
	case lingering:
		t.lingering.pushBack(&c.tableEntry)
		if c.source != nil {
			c.source.lingering.pushBack(&c.sourceEntry)
		}
	default:
		t.busy.pushBack(&c.tableEntry)
	}
}

// finishReading ends the wait for the head of c. complete means that a whole head arrived
// before the deadline, which an eviction shortens. It returns why c must end, or an
// empty value. An evicted connection with a complete head stays only if another one can be
// evicted in its place.
func (t *connectionTable) finishReading(c *connection, complete bool) (reason report.Refusal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.stage == evicted {
		if !complete || !t.readmit(c) {
			return c.evictionReason
		}
	}
	t.setStage(c, answering)
	return ""
}

// startLingering marks c as answered. Answered connections are evicted first.
func (t *connectionTable) startLingering(c *connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setStage(c, lingering)
	t.signalChange()
}

func (t *connectionTable) remove(c *connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.stage == evicted {
		t.uncountEvicted(c)
	}
	c.tableEntry.remove()
	c.sourceEntry.remove()
	t.leaveSource(c)
	t.count--
	t.signalChange()
}

// shortenHeadDeadlines bounds the wait for the heads that are being read.
func (t *connectionTable) shortenHeadDeadlines(until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reading.forEach(func(c *connection) {
		if until.Before(c.headDeadline) {
			_ = c.tcp.SetReadDeadline(until)
		}
	})
}

func (t *connectionTable) closeAll() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, each := range [...]*connectionList{t.reading, t.lingering, t.busy} {
		each.forEach(func(c *connection) { _ = c.tcp.Close() })
	}
	return t.count
}

// changeSignal returns the channel that the next signalChange closes. The caller holds
// mu.
func (t *connectionTable) changeSignal() <-chan struct{} {
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed
}

// signalChange ends every wait for a change. The caller holds mu.
func (t *connectionTable) signalChange() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}
