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
	// statusLineInterval keeps the "3m ago" of the status line true.
	statusLineInterval = 30 * time.Second
	// minStatusLineInterval bounds how often a stream of challenges changes the line.
	minStatusLineInterval = time.Second
)

// notifier tells systemd what the board says.
type notifier struct {
	log     *slog.Logger
	tracker *tracker.Tracker
	notify  systemd.Notifier

	// mu is held from looking at the board until systemd has been told: an older
	// line never follows a newer one, and none the end.
	mu           sync.Mutex
	lastLine     string // the line that systemd has
	stoppingSent bool   // systemd has been told that it has begun
}

func (a *notifier) statusLine() string {
	return a.tracker.Report(report.Table{}).StatusLine(time.Now())
}

// Ready says that the start or a reload is over.
func (a *notifier) Ready() {
	a.send(func(line string) error { return a.notify.Ready(line) })
}

// sendIfChanged sends the line if systemd has another one.
func (a *notifier) sendIfChanged() {
	a.send(func(line string) error {
		if line == a.lastLine {
			return nil
		}
		return a.notify.Status(line)
	})
}

// recordChallenge has the line of now sent, unless the end has begun.
func (a *notifier) send(send func(line string) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stoppingSent {
		return
	}
	line := a.statusLine()
	err := send(line)
	if err == nil {
		a.lastLine = line
	}
	a.logError(err)
}

// Reloading says that a reload has begun.
func (a *notifier) Reloading() { a.logError(a.notify.Reloading()) }

func (a *notifier) sendStopping() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stoppingSent = true
	a.logError(a.notify.Stopping("Stopping: waiting for challenges in flight"))
}

func (a *notifier) logError(err error) {
	if err != nil {
		a.log.Warn("systemd was not told", slog.String("event", "notify"), slog.Any("error", err))
	}
}

// run keeps the status line up to date until ctx ends, and then says that the
// end has begun.
func (a *notifier) run(ctx context.Context) error {
	ages := time.NewTicker(statusLineInterval)
	defer ages.Stop()
	pause := time.NewTicker(minStatusLineInterval)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			a.sendStopping()
			return nil
		case <-ages.C:
		case <-a.tracker.Changed():
		}
		if ctx.Err() == nil {
			a.sendIfChanged()
		}
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
	}
}
