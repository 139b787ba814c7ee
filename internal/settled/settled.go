// SPDX-License-Identifier: Apache-2.0

package settled

import "time"

const (
	// ChangeDelay is how long a changed file must keep the same content.
	ChangeDelay = 100 * time.Millisecond
	// RejectedDelay applies to a file that is rejected, missing or empty, and has a last good
	// value: it may be being replaced.
	RejectedDelay = time.Second
	// LossDelay applies to a change that removes settings which are in use.
	LossDelay = 2 * time.Second
)

// Content separates the content of a file that took effect from newer content that may still
// change. Several files that are read together count as one. K identifies a content. The zero
// value contains no content. Its methods belong to one goroutine.
type Content[K comparable] struct {
	current, pending       K
	hasCurrent, hasPending bool
	since                  time.Time // when pending was first found
}

// Wait records the content that a read found. It returns how long the content must still stay
// the same, and 0 if it is the current content or it settled. The caller then calls Accept.
func (c *Content[K]) Wait(found K, delay time.Duration, now time.Time) time.Duration {
	if c.Is(found) {
		c.drop()
		return 0
	}
	if !c.hasPending || c.pending != found || now.Before(c.since) {
		c.pending, c.hasPending, c.since = found, true, now
	}
	return max(0, delay-now.Sub(c.since))
}

// Accept makes a content the current one.
func (c *Content[K]) Accept(found K) {
	c.current, c.hasCurrent = found, true
	c.drop()
}

// Current returns the current content. ok is false before the first Accept.
func (c *Content[K]) Current() (current K, ok bool) { return c.current, c.hasCurrent }

// Is reports whether a content is the current one.
func (c *Content[K]) Is(found K) bool { return c.hasCurrent && c.current == found }

// Pending reports whether another content was found that did not settle yet.
func (c *Content[K]) Pending() bool { return c.hasPending }

func (c *Content[K]) drop() {
	var none K
	c.pending, c.hasPending = none, false
}

// File is the Content of a file and the last good value of it. The zero value contains neither.
// Its methods belong to one goroutine.
type File[K comparable, V any] struct {
	Content[K]

	value    V
	hasValue bool
	restored bool // value is from an earlier process
	err      error
}

// Take makes a content the current one. A good content, without err, sets the value; a
// rejected one does not.
func (f *File[K, V]) Take(found K, value V, err error) {
	f.Accept(found)
	f.err = err
	if err == nil {
		f.value, f.hasValue, f.restored = value, true, false
	}
}

// Restore sets the value to the one that an earlier process saved. The current content
// stays.
func (f *File[K, V]) Restore(value V) { f.value, f.hasValue, f.restored = value, true, true }

// Value returns the last good value. ok is false before the first one.
func (f *File[K, V]) Value() (value V, ok bool) { return f.value, f.hasValue }

// Err returns why the current content is rejected, or nil.
func (f *File[K, V]) Err() error { return f.err }

// Stale reports whether the value comes from earlier content.
func (f *File[K, V]) Stale() bool { return f.hasValue && (f.restored || f.err != nil) }

// ShorterWait returns the shorter of two waits, of which 0 means none.
func ShorterWait(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
