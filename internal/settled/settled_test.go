// SPDX-License-Identifier: Apache-2.0

package settled_test

import (
	"errors"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/settled"
)

// TestWait: a content settles after the delay without a change. Returning to the current
// content cancels the delay.
func TestWait(t *testing.T) {
	t.Parallel()
	var c settled.Content[string]
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, s := range []struct {
		name    string
		after   time.Duration
		found   string
		delay   time.Duration
		want    time.Duration
		pending bool
		accept  bool
	}{
		{"first content without delay", 0, "a", 0, 0, true, true},
		{"the same", time.Hour, "a", time.Second, 0, false, false},
		{"changed", time.Hour, "b", time.Second, time.Second, true, false},
		{"unchanged since", 400 * time.Millisecond, "b", time.Second, 600 * time.Millisecond, true, false},
		{"changed again", 400 * time.Millisecond, "c", time.Second, time.Second, true, false},
		{
			"a longer delay for the same content", 500 * time.Millisecond, "c", 2 * time.Second, 1500 * time.Millisecond, true,
			false,
		},
		{"the clock goes back", -time.Hour, "c", time.Second, time.Second, true, false},
		{"the current content again", time.Millisecond, "a", time.Second, 0, false, false},
		{"changed after that", time.Millisecond, "c", time.Second, time.Second, true, false},
		{"settled", time.Second, "c", time.Second, 0, true, true},
		{"in effect", 0, "c", time.Second, 0, false, false},
	} {
		now = now.Add(s.after)
		if got := c.Wait(s.found, s.delay, now); got != s.want || c.Pending() != s.pending {
			t.Errorf("%s: wait %v, pending %v; want %v, %v", s.name, got, c.Pending(), s.want, s.pending)
		}
		if s.accept {
			c.Accept(s.found)
			if c.Pending() || !c.Is(s.found) {
				t.Errorf("%s: not accepted", s.name)
			}
		}
	}
}

// TestLastGood: a refused content leaves the last good value in use.
func TestLastGood(t *testing.T) {
	t.Parallel()
	var f settled.File[string, int]
	expect := func(when string, value int, ok, stale bool, err error) {
		t.Helper()
		if got, has := f.Value(); got != value || has != ok || f.Stale() != stale || !errors.Is(f.Err(), err) ||
			(err == nil) != (f.Err() == nil) {
			t.Errorf("%s: %d, %v, stale %v, %v", when, got, has, f.Stale(), f.Err())
		}
	}
	refused := errors.New("refused")
	expect("at the start", 0, false, false, nil)
	f.Take("x", 0, refused)
	expect("refused without a value", 0, false, false, refused)
	f.Restore(7)
	expect("restored", 7, true, true, refused)
	f.Take("1", 1, nil)
	expect("good", 1, true, false, nil)
	f.Take("y", 0, refused)
	expect("refused", 1, true, true, refused)
	f.Take("2", 2, nil)
	expect("good again", 2, true, false, nil)
	if current, ok := f.Current(); current != "2" || !ok {
		t.Errorf("current %q, %v", current, ok)
	}
}
