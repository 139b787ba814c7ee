// SPDX-License-Identifier: Apache-2.0

package diagnose

import "context"

// future is a value that is being found out.
type future[T any] struct {
	done  chan struct{}
	value T
}

// newFinding begins to find a value out. f ends by itself.
func startFuture[T any](f func() T) *future[T] {
	l := &future[T]{done: make(chan struct{})}
	go func() {
		defer close(l.done)
		l.value = f()
	}()
	return l
}

// await waits for the value; known is false when ctx ends before.
func (l *future[T]) await(ctx context.Context) (value T, known bool) {
	select {
	case <-l.done:
		return l.value, true
	case <-ctx.Done():
		return value, false
	}
}
