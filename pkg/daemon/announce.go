// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/status"
	"github.com/http01-proxyd/http01-proxyd/pkg/systemd"
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
	board  *status.Board
	notify systemd.Notifier
	// mu is held from looking at the board until the line is sent: an older
	// line never follows a newer one.
	mu sync.Mutex
}

func (a *announcer) sentence() string {
	return a.board.Report(status.Table{}).Sentence(time.Now())
}

// Ready says that the start or a reload is over.
func (a *announcer) Ready() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.complain(a.notify.Ready(a.sentence()))
}

// refresh sends the status line when it is not the one that refresh sent last,
// and returns it.
func (a *announcer) refresh(last string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	line := a.sentence()
	if line != last {
		a.complain(a.notify.Status(line))
	}
	return line
}

// Reloading says that a reload has begun.
func (a *announcer) Reloading() { a.complain(a.notify.Reloading()) }

func (a *announcer) stopping() {
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
	last := ""
	for {
		select {
		case <-ctx.Done():
			a.stopping()
			return nil
		case <-ages.C:
		case <-a.board.Changed():
		}
		if ctx.Err() == nil {
			last = a.refresh(last)
		}
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
	}
}
