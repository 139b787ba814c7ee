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
	reading   stage = iota // for its head
	answering              // for the upstream, or for its answer to be written
	lingering              // has its answer; for its client to end it, see close
	leaving                // for its goroutine to see that it has to go
)

// live is the connections in flight, and their bounds. What is done for each
// connection takes the same time however many there are, and allocates nothing.
type live struct {
	mu        sync.Mutex
	limit     int
	perSource int // 0: any number
	n         int // in flight
	leaving   int // of these, told to leave
	// Each connection is in one of them. The longest waited for is the first.
	reading, lingering, busy *list

	sources map[origin]*source
	spare   sync.Pool     // of *source
	changed chan struct{} // closed when one ends or lingers or the limit changes; nil while nobody waits
}

func newLive() *live {
	return &live{
		reading: newList(), lingering: newList(), busy: newList(),
		sources: make(map[origin]*source),
		spare:   sync.Pool{New: func() any { return &source{reading: newList(), lingering: newList()} }},
	}
}

func (l *live) setLimits(all, perSource int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit, l.perSource = all, perSource
	l.wake()
}

// state returns how many connections are in flight and what is closed when
// that has changed.
func (l *live) state() (n int, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n, l.wait()
}

// put gives c its place in a stage. It needs mu.
func (l *live) put(c *conversation, s stage) {
	c.stage = s
	c.amongAll.leave()
	c.amongSource.leave()
	switch s {
	case reading:
		l.reading.push(&c.amongAll)
		if c.source != nil {
			c.source.reading.push(&c.amongSource)
		}
	case lingering:
		l.lingering.push(&c.amongAll)
		if c.source != nil {
			c.source.lingering.push(&c.amongSource)
		}
	default:
		l.busy.push(&c.amongAll)
	}
}

// heard takes c for one whose head is not waited for any more; cut says that
// the wait ended without a head. It returns why c has to leave, if it has to. When
// its head came at the last moment, it stays: it has what it was waited for.
func (l *live) heard(c *conversation, cut bool) (leave report.Refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.stage == leaving {
		if cut {
			return c.why
		}
		l.left(c)
	}
	l.put(c, answering)
	return ""
}

// lingers takes c for one that has its answer: it is the first to make room.
func (l *live) lingers(c *conversation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put(c, lingering)
	l.wake()
}

func (l *live) remove(c *conversation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.stage == leaving {
		l.left(c)
	}
	c.amongAll.leave()
	c.amongSource.leave()
	l.part(c)
	l.n--
	l.wake()
}

// hurry shortens the wait for the heads that are being read now.
func (l *live) hurry(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reading.each(func(c *conversation) {
		if until.Before(c.headBy) {
			_ = c.tcp.SetReadDeadline(until)
		}
	})
}

func (l *live) closeAll() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, each := range [...]*list{l.reading, l.lingering, l.busy} {
		each.each(func(c *conversation) { _ = c.tcp.Close() })
	}
	return l.n
}

// wait needs mu.
func (l *live) wait() <-chan struct{} {
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

// wake needs mu.
func (l *live) wake() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}
