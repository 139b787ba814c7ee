// SPDX-License-Identifier: Apache-2.0

package diagnose

import "context"

// future is a value that is being computed.
type future[T any] struct {
	done  chan struct{}
	value T
}

// startFuture starts the computation of a value. f must end without help.
func startFuture[T any](f func() T) *future[T] {
	l := &future[T]{done: make(chan struct{})}
	go func() {
		defer close(l.done)
		l.value = f()
	}()
	return l
}

// await waits for the value; known is false if ctx ends first.
func (l *future[T]) await(ctx context.Context) (value T, known bool) {
	select {
	case <-l.done:
		return l.value, true
	case <-ctx.Done():
		return value, false
	}
}
