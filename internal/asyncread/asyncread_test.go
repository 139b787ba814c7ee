// SPDX-License-Identifier: Apache-2.0

package asyncread_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/asyncread"
)

// TestReader: one read runs at a time, the last request follows it, and a read that hangs shows.
func TestReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := asyncread.New[int]()
		if r.Running() || r.Stalled(time.Second) {
			t.Error("a read runs before the first one")
		}
		hung := make(chan struct{})
		r.Start(func() int { <-hung; return 1 })
		r.Start(func() int { return 2 })
		r.Start(func() int { return 3 })
		<-time.After(time.Second)
		if at, running := r.StallsAt(time.Second); !running || !at.Equal(time.Now()) || !r.Stalled(time.Second) || r.Stalled(2*time.Second) {
			t.Errorf("running %t, stalls at %v", running, at)
		}
		close(hung)
		for _, want := range []int{1, 3} {
			if got := <-r.Results(); got != want {
				t.Errorf("got %d, want %d", got, want)
			}
			r.Done()
		}
		if r.Running() {
			t.Error("the second request was not replaced")
		}
	})
}
