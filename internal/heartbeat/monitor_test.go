// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// start runs a Monitor that counts its heartbeats.
func start(t *testing.T, interval time.Duration) (m *Monitor, sent *atomic.Int64) {
	t.Helper()
	sent = new(atomic.Int64)
	m = NewMonitor(interval, func() { sent.Add(1) })
	go func() { _ = m.Run(t.Context()) }()
	return m, sent
}

func TestMonitorRequiresEverySource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, sent := start(t, 0)
		beatA, doneA := m.Source("a")
		beatB, doneB := m.Source("b")
		expect := func(what string, want int64) {
			t.Helper()
			synctest.Wait()
			if got := sent.Load(); got != want {
				t.Fatalf("%s: %d heartbeats, want %d", what, got, want)
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
	})
}

func TestMonitorLimitsHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, sent := start(t, time.Hour)
		beat, _ := m.Source("a")
		for range 1000 {
			beat()
			synctest.Wait()
		}
		if got := sent.Load(); got != 1 {
			t.Errorf("%d heartbeats within the interval", got)
		}
	})
}

// TestReceiverDoesNotRead: a heartbeat that cannot be sent blocks no source. When the
// receiver reads again, the heartbeats that were due meanwhile count as one.
func TestReceiverDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := make(chan struct{})
		m := NewMonitor(0, func() { <-read })
		go func() { _ = m.Run(t.Context()) }()
		beat, done := m.Source("a")
		beat()
		synctest.Wait() // Run waits for the receiver
		for range 1000 {
			beat() // a source that blocks is a deadlock, which synctest reports
		}
		done()
		synctest.Wait()
		for range 2 {
			select {
			case read <- struct{}{}:
			default:
				t.Fatal("no heartbeat waits for the receiver")
			}
			synctest.Wait()
		}
		select {
		case read <- struct{}{}:
			t.Error("each heartbeat was sent")
		default:
		}
	})
}
