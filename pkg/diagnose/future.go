// SPDX-License-Identifier: Apache-2.0

package diagnose

import "context"

// future is a value that is computed once, after start.
type future[T any] struct {
	compute func() T
	done    chan struct{}
	value   T
}

// newFuture creates a future without starting it. compute must end by itself:
// nothing cancels it.
func newFuture[T any](compute func() T) *future[T] {
	return &future[T]{compute: compute, done: make(chan struct{})}
}

// start starts the computation.
func (f *future[T]) start() {
	go func() {
		defer close(f.done)
		f.value = f.compute()
	}()
}

// await waits for the value; known is false if ctx ends first.
func (f *future[T]) await(ctx context.Context) (value T, known bool) {
	select {
	case <-f.done:
		return f.value, true
	case <-ctx.Done():
		return value, false
	}
}
