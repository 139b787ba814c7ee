// SPDX-License-Identifier: Apache-2.0

package filewatch

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWithoutInotify: a watcher without an inotify instance signals regularly.
func TestWithoutInotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &Watcher{changed: make(chan struct{}, 1)}
		go func() { _ = w.Run(t.Context()) }()
		begin := time.Now()
		for range 3 {
			<-w.Changed()
		}
		if got := time.Since(begin); got != 3*pollInterval {
			t.Errorf("three signals after %v, want %v", got, 3*pollInterval)
		}
	})
}
