// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// statusLineInterval keeps the "3m ago" of the status line correct.
	statusLineInterval = 30 * time.Second
	// minStatusLineInterval bounds how often a stream of challenges changes the line.
	minStatusLineInterval = time.Second
	// settingsTimeout bounds how long the end of a start or a reload waits for the proxy to
	// answer by its settings: longer than the first lookup of an egress proxy's name.
	settingsTimeout = egress.LookupTimeout + 2*time.Second
	// readyRetryInterval is the pause after a message that systemd did not get, and
	// readyRetries bounds the repetitions: TimeoutStartSec of the unit is 30 s.
	readyRetryInterval = time.Second
	readyRetries       = 30
)

// notifier sends the state of the tracker to systemd.
type notifier struct {
	log     *slog.Logger
	tracker *tracker.Tracker
	notify  systemd.Notifier
	inForce func() func(context.Context) // see proxyClient.settingsInForce; the reconcile loop calls it

	reloads atomic.Uint64 // that have begun
	ready   *mailbox[readyRequest]

	// mu is held from reading the tracker until systemd has the message: an older line
	// never follows a newer one, and none follows Stopping. It is taken before the
	// tracker's own lock. No caller is on the path from an address event to the rule.
	mu           sync.Mutex
	lastLine     string // that systemd has
	stoppingSent bool
}

// readyRequest is the end of a start or a reload in the reconcile loop.
type readyRequest struct {
	reload  uint64 // the number of reloads
	inForce func(context.Context)
}

// newNotifier returns a notifier. inForce returns what waits for the settings of the proxy.
func newNotifier(log *slog.Logger, tracker *tracker.Tracker, inForce func() func(context.Context)) *notifier {
	return &notifier{log: log, tracker: tracker, inForce: inForce, ready: newMailbox[readyRequest]()}
}

func (n *notifier) statusLine() string {
	return n.tracker.Report(report.Table{}).StatusLine(time.Now())
}

// Ready implements reconcile.Notifier: it has runReady notify systemd that the start or a
// reload has completed. It never blocks.
func (n *notifier) Ready() {
	n.ready.put(readyRequest{n.reloads.Load(), n.inForce()})
}

// runReady completes each start and reload when the proxy answers by its settings, until
// ctx ends.
func (n *notifier) runReady(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-n.ready.values:
			bounded, cancel := context.WithTimeout(ctx, settingsTimeout)
			r.inForce(bounded)
			cancel()
			// A reload that has begun meanwhile is not complete. A manager that does not read
			// for some seconds must get the message later: it ends a start without one.
			for range readyRetries {
				if ctx.Err() != nil || r.reload != n.reloads.Load() || n.send(n.notify.Ready) == nil {
					break
				}
				select {
				case <-ctx.Done():
				case <-time.After(readyRetryInterval):
				}
			}
		}
	}
}

// sendIfChanged sends the status line if systemd has another one.
func (n *notifier) sendIfChanged() {
	_ = n.send(func(line string) error { // logged; the next line follows
		if line == n.lastLine {
			return nil
		}
		return n.notify.Status(line)
	})
}

// send sends the current status line, unless the service is stopping. It logs an error.
func (n *notifier) send(send func(line string) error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stoppingSent {
		return nil
	}
	line := n.statusLine()
	err := send(line)
	if err == nil {
		n.lastLine = line
	}
	n.logError(err)
	return err
}

// Reloading notifies systemd that a reload has begun.
func (n *notifier) Reloading() {
	n.reloads.Add(1)
	n.logError(n.notify.Reloading())
}

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
