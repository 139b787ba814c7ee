// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// statusLineInterval keeps the "3m ago" of the status line correct.
	statusLineInterval = 30 * time.Second
	// minStatusLineInterval bounds how often a stream of challenges changes the line.
	minStatusLineInterval = time.Second
)

// notifier sends the state of the tracker to systemd.
type notifier struct {
	log     *slog.Logger
	tracker *tracker.Tracker
	notify  systemd.Notifier

	// mu is held from reading the tracker until systemd has the message: an older line
	// never follows a newer one, and none follows Stopping. It is taken before the
	// tracker's own lock. No caller is on the path from an address event to the rule.
	mu           sync.Mutex
	lastLine     string // that systemd has
	stoppingSent bool
}

func (n *notifier) statusLine() string {
	return n.tracker.Report(report.Table{}).StatusLine(time.Now())
}

// Ready notifies systemd that the start or a reload has completed.
func (n *notifier) Ready() {
	n.send(func(line string) error { return n.notify.Ready(line) })
}

// sendIfChanged sends the status line if systemd has another one.
func (n *notifier) sendIfChanged() {
	n.send(func(line string) error {
		if line == n.lastLine {
			return nil
		}
		return n.notify.Status(line)
	})
}

// send sends the current status line, unless the service is stopping.
func (n *notifier) send(send func(line string) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stoppingSent {
		return
	}
	line := n.statusLine()
	err := send(line)
	if err == nil {
		n.lastLine = line
	}
	n.logError(err)
}

// Reloading notifies systemd that a reload has begun.
func (n *notifier) Reloading() { n.logError(n.notify.Reloading()) }

func (n *notifier) sendStopping() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stoppingSent = true
	n.logError(n.notify.Stopping("Stopping: completing requests in flight"))
}

func (n *notifier) logError(err error) {
	if err != nil {
		n.log.Warn("cannot notify systemd", slog.String("event", "notify"), slog.Any("error", err))
	}
}

// run keeps the status line up to date until ctx ends. Then it notifies systemd that the
// service is stopping.
func (n *notifier) run(ctx context.Context) error {
	refresh := time.NewTicker(statusLineInterval)
	defer refresh.Stop()
	pause := time.NewTicker(minStatusLineInterval)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			n.sendStopping()
			return nil
		case <-refresh.C:
		case <-n.tracker.Changed():
		}
		if ctx.Err() == nil {
			n.sendIfChanged()
		}
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
	}
}
