// SPDX-License-Identifier: Apache-2.0

package model

import (
	"maps"
	"time"
)

// candidates is what a process can have kept of an input: its possible values, and the current
// content of the input, which replaces them once the process has accepted it.
type candidates[V comparable] struct {
	values   map[V]bool
	pending  V
	takes    bool          // the pending value will be accepted, if it stays
	since    time.Time     // of the pending value
	after    time.Duration // until which it is accepted
	earliest time.Duration // before which it cannot be
}

func newCandidates[V comparable](v V) candidates[V] {
	return candidates[V]{values: map[V]bool{v: true}, pending: v}
}

// write records new content of the input. A value that was pending may have been accepted.
func (c *candidates[V]) write(v V, takes bool, now time.Time, earliest, after time.Duration) {
	c.advance(now)
	if c.takes && !now.Before(c.since.Add(c.earliest)) {
		c.values[c.pending] = true
	}
	c.pending, c.takes, c.since, c.earliest, c.after = v, takes, now, earliest, after
}

// delay moves the time at which the process began to read the pending value.
func (c *candidates[V]) delay(now time.Time, after time.Duration) {
	if !c.certain() {
		c.since, c.after = now, max(after, c.after)
	}
}

// reset records a new process, which has one of these values.
func (c *candidates[V]) reset(now time.Time, after time.Duration, values ...V) {
	c.values = make(map[V]bool)
	for _, v := range values {
		c.values[v] = true
	}
	c.since, c.after = now, after
}

// may adds a possible value.
func (c *candidates[V]) may(v V) { c.values[v] = true }

// replace replaces the possible values that match by another one.
func (c *candidates[V]) replace(matches func(V) bool, by V) {
	for v := range c.values {
		if matches(v) {
			delete(c.values, v)
			c.values[by] = true
		}
	}
}

// due returns when the pending value must have been accepted.
func (c *candidates[V]) due() time.Time {
	if !c.takes || c.certain() {
		return time.Time{}
	}
	return c.since.Add(c.after)
}

func (c *candidates[V]) certain() bool { return c.takes && len(c.values) == 1 && c.values[c.pending] }

// advance drops the other values if the pending one must have been accepted by now.
func (c *candidates[V]) advance(now time.Time) {
	if c.takes && !now.Before(c.since.Add(c.after)) {
		c.accept()
	}
}

// accept records that the pending value was accepted.
func (c *candidates[V]) accept() { c.values = map[V]bool{c.pending: true} }

// now returns the possible values at this moment.
func (c *candidates[V]) now() []V {
	all := maps.Clone(c.values)
	if c.takes {
		all[c.pending] = true
	}
	list := make([]V, 0, len(all))
	for v := range all {
		list = append(list, v)
	}
	return list
}

// settled returns the possible values after all bounds have passed.
func (c *candidates[V]) settled() []V {
	if c.takes {
		return []V{c.pending}
	}
	return c.now()
}
