// SPDX-License-Identifier: Apache-2.0

package mailbox

import "sync"

// Mailbox passes the latest value to one receiver, which reads Values.
type Mailbox[T any] struct {
	mu     sync.Mutex // held by Put alone, which never blocks
	Values chan T
}

// New returns an empty mailbox.
func New[T any]() *Mailbox[T] { return &Mailbox[T]{Values: make(chan T, 1)} }

// Put passes a value on. It replaces a value that was not received yet.
func (m *Mailbox[T]) Put(value T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Drop()
	m.Values <- value
}

// Drop drops a value that was not received yet.
func (m *Mailbox[T]) Drop() {
	select {
	case <-m.Values:
	default:
	}
}

// Trigger wakes one receiver. Several calls before it wakes count as one.
type Trigger chan struct{}

// NewTrigger returns a trigger that did not fire yet.
func NewTrigger() Trigger { return make(Trigger, 1) }

// Fire wakes the receiver. It never blocks.
func (t Trigger) Fire() {
	select {
	case t <- struct{}{}:
	default:
	}
}
