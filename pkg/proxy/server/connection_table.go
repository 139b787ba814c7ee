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
	answering                // waits for the upstream, or for the write of its answer
	lingering                // has its answer and waits for the client to close; see closeConnection
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

func (l *connectionTable) setLimits(all, perSource int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit, l.perSource = all, perSource
	l.signalChange()
}

// inFlight returns the number of connections in flight, and a channel that is
// closed when the number changes.
func (l *connectionTable) inFlight() (n int, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count, l.changeSignal()
}

// setStage moves c to the lists of a stage. The caller holds mu.
func (l *connectionTable) setStage(c *connection, s stage) {
	c.stage = s
	c.tableEntry.remove()
	c.sourceEntry.remove()
	switch s {
	case readingHead:
		l.reading.pushBack(&c.tableEntry)
		if c.source != nil {
			c.source.reading.pushBack(&c.sourceEntry)
		}
	case lingering:
		l.lingering.pushBack(&c.tableEntry)
		if c.source != nil {
			c.source.lingering.pushBack(&c.sourceEntry)
		}
	default:
		l.busy.pushBack(&c.tableEntry)
	}
}

// finishReading ends the wait for the head of c. cut means that no head arrived. It
// returns why c must end, or an empty value. An evicted connection whose head
// arrived in time stays only if another one can be evicted in its place.
func (l *connectionTable) finishReading(c *connection, cut bool) (leave report.Refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.stage == evicted {
		if cut || !l.readmit(c) {
			return c.evictionReason
		}
	}
	l.setStage(c, answering)
	return ""
}

// startLingering marks c as answered. Answered connections are evicted first.
func (l *connectionTable) startLingering(c *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setStage(c, lingering)
	l.signalChange()
}

func (l *connectionTable) remove(c *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.stage == evicted {
		l.uncountEvicted(c)
	}
	c.tableEntry.remove()
	c.sourceEntry.remove()
	l.leaveSource(c)
	l.count--
	l.signalChange()
}

// shortenHeadDeadlines bounds the wait for the heads that are being read.
func (l *connectionTable) shortenHeadDeadlines(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reading.forEach(func(c *connection) {
		if until.Before(c.headDeadline) {
			_ = c.tcp.SetReadDeadline(until)
		}
	})
}

func (l *connectionTable) closeAll() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, each := range [...]*connectionList{l.reading, l.lingering, l.busy} {
		each.forEach(func(c *connection) { _ = c.tcp.Close() })
	}
	return l.count
}

// changeSignal needs mu.
func (l *connectionTable) changeSignal() <-chan struct{} {
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

// notify needs mu.
func (l *connectionTable) signalChange() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}
