// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"sync"
	"time"
)

// Monitor sends a heartbeat when every source has reported since the last one. It has no timer: if one
// loop hangs, no heartbeat is sent, and the receiver ends the process.
type Monitor struct {
	interval time.Duration // between two heartbeats, at least
	send     func()

	mu      sync.Mutex
	pending map[*source]bool // true: has not reported since the last heartbeat
	last    time.Time
}

type source struct{ name string }

// NewMonitor returns a Monitor that calls send at most once per interval.
func NewMonitor(interval time.Duration, send func()) *Monitor {
	return &Monitor{interval: interval, send: send, pending: make(map[*source]bool)}
}

// Source adds a loop. The loop calls beat regularly, and done when it ends as planned.
func (m *Monitor) Source(name string) (beat, done func()) {
	s := &source{name}
	m.mu.Lock()
	m.pending[s] = true
	m.mu.Unlock()
	return func() { m.record(s) }, func() { m.remove(s) }
}

func (m *Monitor) record(s *source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, registered := m.pending[s]; registered {
		m.pending[s] = false
		m.sendWhenComplete()
	}
}

func (m *Monitor) remove(s *source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pending, s)
	if len(m.pending) > 0 {
		m.sendWhenComplete()
	}
}

// sendWhenComplete must be called with mu held.
func (m *Monitor) sendWhenComplete() {
	for _, missing := range m.pending {
		if missing {
			return
		}
	}
	if now := time.Now(); now.Sub(m.last) >= m.interval {
		m.last = now
		m.send()
		for s := range m.pending {
			m.pending[s] = true
		}
	}
}
