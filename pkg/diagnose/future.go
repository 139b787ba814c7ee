// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"sync"
)

// future is a value that is computed once, from the first start or await.
type future[T any] struct {
	once    sync.Once
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
	f.once.Do(func() {
		go func() {
			defer close(f.done)
			f.value = f.compute()
		}()
	})
}

// await waits for the value; known is false if ctx ends first.
func (f *future[T]) await(ctx context.Context) (value T, known bool) {
	f.start()
	select {
	case <-f.done:
		return f.value, true
	case <-ctx.Done():
		return value, false
	}
}

// awaitAll starts all computations and waits for their values. It leaves out values that are
// not available when ctx ends.
func awaitAll[K comparable, T any](ctx context.Context, all map[K]*future[T]) map[K]T {
	for _, f := range all {
		f.start()
	}
	values := make(map[K]T, len(all))
	for key, f := range all {
		if value, known := f.await(ctx); known {
			values[key] = value
		}
	}
	return values
}
