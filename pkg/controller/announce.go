// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// statusRefresh keeps the "3m ago" of the status line true.
	statusRefresh = 30 * time.Second
	// statusPause bounds how often a stream of challenges changes the line.
	statusPause = time.Second
)

// announcer tells systemd what the board says.
type announcer struct {
	log    *slog.Logger
	board  *report.Board
	notify systemd.Notifier

	// mu is held from looking at the board until systemd has been told: an older
	// line never follows a newer one, and none the end.
	mu   sync.Mutex
	last string // the line that systemd has
	end  bool   // systemd has been told that it has begun
}

func (a *announcer) sentence() string {
	return a.board.Report(report.Table{}).Sentence(time.Now())
}

// Ready says that the start or a reload is over.
func (a *announcer) Ready() {
	a.tell(func(line string) error { return a.notify.Ready(line) })
}

// refresh sends the line if systemd has another one.
func (a *announcer) refresh() {
	a.tell(func(line string) error {
		if line == a.last {
			return nil
		}
		return a.notify.Status(line)
	})
}

// tell has the line of now sent, unless the end has begun.
func (a *announcer) tell(send func(line string) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.end {
		return
	}
	line := a.sentence()
	err := send(line)
	if err == nil {
		a.last = line
	}
	a.complain(err)
}

// Reloading says that a reload has begun.
func (a *announcer) Reloading() { a.complain(a.notify.Reloading()) }

func (a *announcer) stopping() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end = true
	a.complain(a.notify.Stopping("Stopping: waiting for challenges in flight"))
}

func (a *announcer) complain(err error) {
	if err != nil {
		a.log.Warn("systemd was not told", slog.String("event", "notify"), slog.Any("error", err))
	}
}

// run keeps the status line up to date until ctx ends, and then says that the
// end has begun.
func (a *announcer) run(ctx context.Context) error {
	ages := time.NewTicker(statusRefresh)
	defer ages.Stop()
	pause := time.NewTicker(statusPause)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			a.stopping()
			return nil
		case <-ages.C:
		case <-a.board.Changed():
		}
		if ctx.Err() == nil {
			a.refresh()
		}
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
	}
}
