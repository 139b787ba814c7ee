// SPDX-License-Identifier: Apache-2.0

package controller

import "sync"

// mailbox passes the latest value to one receiver. put never blocks: it replaces a value
// that has not been received.
type mailbox[T any] struct {
	mu     sync.Mutex // held by put alone, which never blocks
	values chan T
}

func newMailbox[T any]() *mailbox[T] { return &mailbox[T]{values: make(chan T, 1)} }

func (m *mailbox[T]) put(value T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop()
	m.values <- value
}

// drop drops a value that has not been received.
func (m *mailbox[T]) drop() {
	select {
	case <-m.values:
	default:
	}
}

// trigger wakes one receiver. Several calls before it wakes count as one.
type trigger chan struct{}

func newTrigger() trigger { return make(trigger, 1) }

func (t trigger) fire() {
	select {
	case t <- struct{}{}:
	default:
	}
}
