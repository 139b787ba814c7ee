// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"testing"
	"time"
)

func TestMonitorRequiresEverySource(t *testing.T) {
	t.Parallel()
	sent := 0
	m := NewMonitor(0, func() { sent++ })
	beatA, doneA := m.Source("a")
	beatB, doneB := m.Source("b")
	expect := func(what string, want int) {
		t.Helper()
		if sent != want {
			t.Fatalf("%s: %d heartbeats, want %d", what, sent, want)
		}
	}
	beatA()
	beatA()
	expect("b has not reported", 0)
	beatB()
	expect("both have reported", 1)
	beatB()
	expect("a hangs", 1)
	doneA()
	expect("a has ended as planned", 2)
	beatB()
	expect("b alone", 3)
	doneB()
	expect("no source is left", 3)
	beatB()
	expect("a late report of a source that has ended", 3)
}

func TestMonitorLimitsHeartbeats(t *testing.T) {
	t.Parallel()
	sent := 0
	m := NewMonitor(time.Hour, func() { sent++ })
	beat, _ := m.Source("a")
	for range 1000 {
		beat()
	}
	if sent != 1 {
		t.Errorf("%d heartbeats within the interval", sent)
	}
}
