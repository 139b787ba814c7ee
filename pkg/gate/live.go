// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"sync"
	"time"
)

// live is the set of connections in flight, and its bound.
type live struct {
	mu      sync.Mutex
	limit   int
	all     map[*conversation]struct{}
	changed chan struct{} // closed when one ends or the limit changes; nil while nobody waits
}

func (l *live) setLimit(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = n
	l.wake()
}

// full reports whether the bound is reached and, if so, returns what is closed
// when that may have changed.
func (l *live) full() (changed <-chan struct{}, full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) < l.limit {
		return nil, false
	}
	return l.wait(), true
}

// state returns how many connections are in flight and what is closed when
// that has changed.
func (l *live) state() (n int, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all), l.wait()
}

func (l *live) add(c *conversation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[c] = struct{}{}
}

func (l *live) remove(c *conversation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, c)
	l.wake()
}

// hurry shortens the wait for the heads that are being read now.
func (l *live) hurry(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.all {
		if c.reading.Load() && until.Before(c.headBy) {
			_ = c.tcp.SetReadDeadline(until)
		}
	}
}

func (l *live) closeAll() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.all {
		_ = c.tcp.Close()
	}
	return len(l.all)
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
