// SPDX-License-Identifier: Apache-2.0

package asyncread

import (
	"context"
	"time"
)

// Result is the result of a read.
type Result[T any] struct {
	Value   T    // of the last read that returned
	Stalled bool // the read that runs takes longer than the limit
}

// Reader runs reads of files, one at a time. It repeats the last one that was requested after file
// events and after a while.
type Reader[T any] struct {
	changed  <-chan struct{} // file events
	interval time.Duration   // between two reads without an event
	limit    time.Duration   // of a read
	requests chan func() (T, time.Duration)
	results  chan Result[T]
}

// New returns a Reader that reads nothing yet.
func New[T any](changed <-chan struct{}, interval, limit time.Duration) *Reader[T] {
	return &Reader[T]{
		changed: changed, interval: interval, limit: limit,
		requests: make(chan func() (T, time.Duration), 1), results: make(chan Result[T]),
	}
}

// Start runs read from now on, first as soon as no other read runs. It returns the delay of the
// next read, unless that is zero or at least the interval. One goroutine calls Start, which
// never blocks.
func (r *Reader[T]) Start(read func() (value T, next time.Duration)) {
	select {
	case <-r.requests:
	default:
	}
	r.requests <- read
}

// Results receives the result of each read, and one when a read stalls.
func (r *Reader[T]) Results() <-chan Result[T] { return r.results }

// Run reads until ctx ends. It does not wait for a read that runs.
func (r *Reader[T]) Run(ctx context.Context) {
	type returned struct {
		value T
		next  time.Duration
	}
	done := make(chan returned, 1) // a read never blocks: there is room for its result
	var read func() (T, time.Duration)
	var result Result[T]
	var timer <-chan time.Time // of the next read, or of the limit of the one that runs
	running, due := false, false
	for {
		publish := false
		select {
		case <-ctx.Done():
			return
		case read = <-r.requests:
			due = true
		case <-r.changed:
			due = read != nil
		case d := <-done:
			running, publish, result = false, true, Result[T]{Value: d.value}
			if timer = time.After(r.interval); d.next > 0 {
				timer = time.After(min(r.interval, d.next))
			}
		case <-timer:
			timer, due = nil, due || !running
			// After a pause of this process, a read can have returned too.
			result.Stalled = running && len(done) == 0
			publish = result.Stalled
		}
		if due && !running {
			running, due, timer = true, false, time.After(r.limit)
			go func(read func() (T, time.Duration)) {
				value, next := read()
				done <- returned{value, next}
			}(read)
		}
		if publish {
			select {
			case r.results <- result:
			case <-ctx.Done():
			}
		}
	}
}
