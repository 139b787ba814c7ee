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
	readingHead stage = iota // for its head
	answering                // for the upstream, or for its answer to be written
	lingering                // has its answer; for its client to end it, see close
	evicted                  // for its goroutine to see that it has to go
)

// connectionTable is the connections in flight, and their bounds. What is done for each
// connection takes the same time however many there are, and allocates nothing.
type connectionTable struct {
	mu        sync.Mutex
	limit     int
	perSource int // 0: any number
	count     int // in flight
	evicted   int // of these, told to leave
	// Each connection is in one of them. The longest waited for is the first.
	reading, lingering, busy *connectionList

	sources    map[sourceKey]*source
	sourcePool sync.Pool     // of *source
	changed    chan struct{} // closed when one ends or lingers or the limit changes; nil while nobody waits
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

// inFlight returns how many connections are in flight and what is closed when
// that has changed.
func (l *connectionTable) inFlight() (n int, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count, l.changeSignal()
}

// setStage gives c its place in a stage. It needs mu.
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

// finishReading takes c for one whose head is not waited for any more; cut says that
// the wait ended without a head. It returns why c has to leave, if it has to. When
// its head came at the last moment, it stays: it has what it was waited for.
func (l *connectionTable) finishReading(c *connection, cut bool) (leave report.Refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.stage == evicted {
		if cut {
			return c.evictionReason
		}
		l.uncountEvicted(c)
	}
	l.setStage(c, answering)
	return ""
}

// startLingering takes c for one that has its answer: it is the first to make room.
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

// shortenHeadDeadlines shortens the wait for the heads that are being read now.
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
