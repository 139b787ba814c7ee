// SPDX-License-Identifier: Apache-2.0

package server

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// stateNames are in the order of the constants.
func stateNames() []string {
	return strings.Fields("closed reading queueing connecting sending awaiting delegated replying draining")
}

// TestTransitions compares the states after each state with the table in doc.go, and tries
// every pair of states.
func TestTransitions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimPrefix(line, "//\t"), "|")
		if name := strings.TrimSpace(cells[0]); len(cells) == 3 && name != "state" {
			want[name] = strings.Join(strings.Fields(cells[1]), " ")
		}
	}
	got := map[string]string{}
	names := stateNames()
	if len(names) != int(stateCount) {
		t.Fatalf("%d names of states, want %d", len(names), stateCount)
	}
	for from, name := range names {
		var all []string
		for to, word := range names {
			if state(from).leadsTo(state(to)) {
				all = append(all, word)
			}
		}
		got[name] = strings.Join(all, " ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-doc.go +code):\n%s", diff)
	}
}

// TestDefectIsCounted: a state that may not follow is counted, and the connection goes on.
func TestDefectIsCounted(t *testing.T) {
	t.Parallel()
	g := &Server{}
	c := newConnection(&worker{server: g})
	for _, step := range []struct {
		to   state
		want uint64
	}{{reading, 0}, {awaiting, 1}, {replying, 1}, {queueing, 2}} {
		if c.to(step.to); c.state != step.to || g.defects.Load() != step.want {
			t.Errorf("in state %d with %d defects, want %d with %d", c.state, g.defects.Load(), step.to, step.want)
		}
	}
}
