// SPDX-License-Identifier: Apache-2.0

package asyncread_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/asyncread"
)

// TestReader: one read runs at a time, the last request follows it, a read that hangs shows, and the
// last read is repeated.
func TestReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		changed, ended, begin := make(chan struct{}, 1), make(chan struct{}), time.Now()
		r := asyncread.New[int](changed, time.Minute, time.Second)
		go func() {
			defer close(ended)
			r.Run(ctx)
		}()
		expect := func(want int, stalled bool, after time.Duration) {
			t.Helper()
			if got := <-r.Results(); got.Value != want || got.Stalled != stalled || time.Since(begin) != after {
				t.Errorf("%+v after %v, want %d after %v", got, time.Since(begin), want, after)
			}
		}
		hung := make(chan struct{})
		r.Start(func() (int, time.Duration) { <-hung; return 1, 0 })
		synctest.Wait()
		r.Start(func() (int, time.Duration) { return 2, 0 })
		r.Start(func() (int, time.Duration) { return 3, 10 * time.Second })
		expect(0, true, time.Second)
		close(hung)
		expect(1, false, time.Second)
		expect(3, false, time.Second)
		expect(3, false, 11*time.Second)
		r.Start(func() (int, time.Duration) { return 4, time.Hour })
		expect(4, false, 11*time.Second)
		expect(4, false, 71*time.Second)
		changed <- struct{}{}
		expect(4, false, 71*time.Second)
		cancel()
		<-ended
	})
}

// TestStartDuringRead: reads are requested while others begin. The race detector watches it.
func TestStartDuringRead(t *testing.T) {
	t.Parallel()
	r := asyncread.New[int](nil, time.Hour, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	last := 0
	for i := range 2000 {
		r.Start(func() (int, time.Duration) { return i, 0 })
		select {
		case found := <-r.Results():
			last = found.Value
		default:
		}
	}
	for last != 1999 {
		last = (<-r.Results()).Value
	}
	cancel()
	running.Wait()
}
