// SPDX-License-Identifier: Apache-2.0

package model

import (
	"maps"
	"time"
)

// belief is what a process can have kept of an input: its possible values, and the current
// content of the input, which replaces them once the process has accepted it.
type belief[V comparable] struct {
	values   map[V]bool
	pending  V
	takes    bool          // the pending value will be accepted, if it stays
	since    time.Time     // of the pending value
	after    time.Duration // until which it is accepted
	earliest time.Duration // before which it cannot be
}

func newBelief[V comparable](v V) belief[V] {
	return belief[V]{values: map[V]bool{v: true}, pending: v}
}

// write records new content of the input. A value that was pending may have been accepted.
func (b *belief[V]) write(v V, takes bool, now time.Time, earliest, after time.Duration) {
	b.advance(now)
	if b.takes && !now.Before(b.since.Add(b.earliest)) {
		b.values[b.pending] = true
	}
	b.pending, b.takes, b.since, b.earliest, b.after = v, takes, now, earliest, after
}

// delay moves the time at which the process began to read the pending value.
func (b *belief[V]) delay(now time.Time, after time.Duration) {
	if !b.certain() {
		b.since, b.after = now, max(after, b.after)
	}
}

// reset records a new process, which has one of these values.
func (b *belief[V]) reset(now time.Time, after time.Duration, values ...V) {
	b.values = make(map[V]bool)
	for _, v := range values {
		b.values[v] = true
	}
	b.since, b.after = now, after
}

// may adds a possible value.
func (b *belief[V]) may(v V) { b.values[v] = true }

// due returns when the pending value must have been accepted.
func (b *belief[V]) due() time.Time {
	if !b.takes || b.certain() {
		return time.Time{}
	}
	return b.since.Add(b.after)
}

func (b *belief[V]) certain() bool { return b.takes && len(b.values) == 1 && b.values[b.pending] }

// advance drops the other values if the pending one must have been accepted by now.
func (b *belief[V]) advance(now time.Time) {
	if b.takes && !now.Before(b.since.Add(b.after)) {
		b.accept()
	}
}

// accept records that the pending value was accepted.
func (b *belief[V]) accept() { b.values = map[V]bool{b.pending: true} }

// now returns the possible values at this moment.
func (b *belief[V]) now() []V {
	all := maps.Clone(b.values)
	if b.takes {
		all[b.pending] = true
	}
	list := make([]V, 0, len(all))
	for v := range all {
		list = append(list, v)
	}
	return list
}

// settled returns the possible values after all bounds have passed.
func (b *belief[V]) settled() []V {
	if b.takes {
		return []V{b.pending}
	}
	return b.now()
}
