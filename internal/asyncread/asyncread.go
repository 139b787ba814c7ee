// SPDX-License-Identifier: Apache-2.0

package asyncread

import "time"

// Reader runs reads in a goroutine, one at a time. Its methods belong to one goroutine, which
// receives from Results and then calls Done.
type Reader[T any] struct {
	results chan T
	begun   time.Time // of the read that runs; zero: none
	next    func() T  // runs after it
}

// New returns a Reader that reads nothing yet.
func New[T any]() *Reader[T] { return &Reader[T]{results: make(chan T, 1)} }

// Start runs read, or runs it after the read that runs. It replaces a read that waits for that.
func (r *Reader[T]) Start(read func() T) {
	if r.Running() {
		r.next = read
		return
	}
	r.begun, r.next = time.Now(), nil
	go func() { r.results <- read() }() // never blocks: there is room for the result of one read
}

// Results receives the result of each read.
func (r *Reader[T]) Results() <-chan T { return r.results }

// Done ends a read whose result was received, and starts the next one.
func (r *Reader[T]) Done() {
	r.begun = time.Time{}
	if r.next != nil {
		r.Start(r.next)
	}
}

// Running reports whether a read runs.
func (r *Reader[T]) Running() bool { return !r.begun.IsZero() }

// StallsAt returns when the read that runs will have taken longer than limit; false without one.
func (r *Reader[T]) StallsAt(limit time.Duration) (at time.Time, running bool) {
	return r.begun.Add(limit), r.Running()
}

// Stalled reports whether the read that runs takes longer than limit.
func (r *Reader[T]) Stalled(limit time.Duration) bool {
	return r.Running() && time.Since(r.begun) >= limit
}
