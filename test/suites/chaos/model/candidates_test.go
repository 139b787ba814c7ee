// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestCandidates: what a process can have kept after each write of its input.
func TestCandidates(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := newCandidates("old")
	for _, s := range []struct {
		name         string
		after        time.Duration
		earliest     time.Duration
		write        string
		takes        bool
		now, settled []string
	}{
		{"accepted at once or not yet", 0, 0, "a", true, []string{"a", "old"}, []string{"a"}},
		{"a may have been accepted", 500 * time.Millisecond, 0, "bad", false, []string{"a", "old"}, []string{"a", "old"}},
		{"b replaces all", time.Hour, 0, "b", true, []string{"a", "b", "old"}, []string{"b"}},
		{"b was accepted", 2 * time.Second, 0, "worse", false, []string{"b"}, []string{"b"}},
		{"late replaces b after a while only", time.Second, 800 * time.Millisecond, "late", true, []string{"b", "late"}, []string{"late"}},
		{"late cannot have been accepted", 700 * time.Millisecond, 0, "worst", false, []string{"b"}, []string{"b"}},
	} {
		now = now.Add(s.after)
		c.write(s.write, s.takes, now, s.earliest, time.Second)
		sorted := func(list []string) []string { slices.Sort(list); return list }
		if diff := cmp.Diff(s.now, sorted(c.now())); diff != "" {
			t.Errorf("%s, now (-want +got):\n%s", s.name, diff)
		}
		if diff := cmp.Diff(s.settled, sorted(c.settled())); diff != "" {
			t.Errorf("%s, settled (-want +got):\n%s", s.name, diff)
		}
	}
	c.reset(now, time.Second, "fresh")
	if diff := cmp.Diff([]string{"fresh"}, c.settled()); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
}
