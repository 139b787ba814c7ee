// SPDX-License-Identifier: Apache-2.0

package server

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// stateNames and eventNames are in the order of the constants.
func stateNames() []string {
	return strings.Fields("closed reading queueing connecting sending awaiting relaying flushing delegated delivering replying draining")
}

func eventNames() []string {
	return strings.Fields("accepted forward exceeds connects connected sent responds blocks flushed delegates writes reply drains ends")
}

// TestTransitions compares every pair of state and event with the table in doc.go.
func TestTransitions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimPrefix(line, "//\t"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) == 4 && cells[0] != "state" && cells[1] != "" {
			want[cells[0]+" "+cells[1]] = cells[2]
		}
	}
	got := map[string]string{}
	names, events := stateNames(), eventNames()
	if len(names) != int(stateCount) || len(events) != int(eventCount) {
		t.Fatalf("%d names of states and %d of events, want %d and %d", len(names), len(events), stateCount, eventCount)
	}
	for s, name := range names {
		for e, word := range events {
			to, ok := state(s).after(event(e))
			switch {
			case word == "ends":
				if ok != (name != "closed") || to != closed {
					t.Errorf("%s ends in %s, %t", name, names[to], ok)
				}
			case ok:
				got[name+" "+word] = names[to]
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-doc.go +code):\n%s", diff)
	}
}
