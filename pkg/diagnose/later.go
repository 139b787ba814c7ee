// SPDX-License-Identifier: Apache-2.0

package diagnose

import "context"

// later is a value that is being found out.
type later[T any] struct {
	done  chan struct{}
	value T
}

// find begins to find a value out. f ends by itself.
func find[T any](f func() T) *later[T] {
	l := &later[T]{done: make(chan struct{})}
	go func() {
		defer close(l.done)
		l.value = f()
	}()
	return l
}

// wait waits for the value; known is false when ctx ends before.
func (l *later[T]) wait(ctx context.Context) (value T, known bool) {
	select {
	case <-l.done:
		return l.value, true
	case <-ctx.Done():
		return value, false
	}
}
