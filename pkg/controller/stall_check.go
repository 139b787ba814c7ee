// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// stallTimeout is how long a watcher may take for one event. Reading its files takes
// milliseconds.
const stallTimeout = 10 * time.Second

// activity shows since when a watcher handles an event.
type activity struct{ since atomic.Pointer[time.Time] }

func (a *activity) begin() {
	now := time.Now()
	a.since.Store(&now)
}

func (a *activity) end() { a.since.Store(nil) }

// stalled reports whether the current event takes longer than limit.
func (a *activity) stalled(limit time.Duration) bool {
	since := a.since.Load()
	return since != nil && time.Since(*since) > limit
}

// stallCheck reports watchers that hang in a file read, for example on a network file
// system whose server does not respond. They are no sources of systemd's watchdog: it would
// end a service that works with the last good files, and the next process would hang too.
type stallCheck struct {
	log      *slog.Logger
	limit    time.Duration
	watchers []*checkedWatcher
}

// checkedWatcher is a watcher that stallCheck checks.
type checkedWatcher struct {
	*activity

	files string // that it reads
	event string // of the journal; with "-refused" while the watcher hangs
	set   func(why string, now time.Time)
	last  bool
}

// run checks the watchers until ctx ends.
func (c *stallCheck) run(ctx context.Context) error {
	tick := time.NewTicker(c.limit / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			for _, w := range c.watchers {
				c.check(w, now)
			}
		}
	}
}

// check reports a change.
func (c *stallCheck) check(w *checkedWatcher, now time.Time) {
	stalled := w.stalled(c.limit)
	if stalled == w.last {
		return
	}
	w.last = stalled
	if !stalled {
		w.set("", now)
		c.log.Info("read again: "+w.files, slog.String("event", w.event))
		return
	}
	why := fmt.Sprintf("reading %s has not returned for %v, and new configurations wait for it: check the file systems of these files", w.files, c.limit)
	w.set(why, now)
	c.log.Error(why, slog.String("event", w.event+"-refused"))
}
