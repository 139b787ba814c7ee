// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"sync"
	"time"
)

// Monitor sends a heartbeat when every source reported since the last one. It uses no timer: if
// one loop hangs, no heartbeat is sent, and the receiver ends the process. A receiver that does
// not read blocks Run, but never a source.
type Monitor struct {
	interval time.Duration // between two heartbeats, at least
	send     func()
	due      chan struct{} // holds a value while a heartbeat is due

	mu      sync.Mutex
	pending map[*source]bool // true: has not reported since the last heartbeat
	last    time.Time
}

type source struct{ name string }

// NewMonitor returns a Monitor whose Run calls send once per interval at most. After a call
// that blocked, the next can follow at once.
func NewMonitor(interval time.Duration, send func()) *Monitor {
	return &Monitor{interval: interval, send: send, due: make(chan struct{}, 1), pending: make(map[*source]bool)}
}

// Run sends the heartbeats until ctx ends. While send blocks, heartbeats that become due count as one.
func (m *Monitor) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.due:
			m.send()
		}
	}
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
		m.requestWhenComplete()
	}
}

func (m *Monitor) remove(s *source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pending, s)
	if len(m.pending) > 0 {
		m.requestWhenComplete()
	}
}

// requestWhenComplete makes Run send a heartbeat. The caller must hold mu.
func (m *Monitor) requestWhenComplete() {
	for _, missing := range m.pending {
		if missing {
			return
		}
	}
	if now := time.Now(); now.Sub(m.last) >= m.interval {
		m.last = now
		select {
		case m.due <- struct{}{}:
		default:
		}
		for s := range m.pending {
			m.pending[s] = true
		}
	}
}
