// SPDX-License-Identifier: Apache-2.0

package notifier

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/mailbox"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// minStatusLineInterval bounds how often a stream of challenges changes the line.
	minStatusLineInterval = time.Second
	// settingsTimeout bounds how long the end of a start or a reload waits for the proxy to
	// answer by its settings: longer than the first lookup of an egress proxy's name.
	settingsTimeout = egress.LookupTimeout + 2*time.Second
)

// Notifier sends the state of the tracker to systemd.
type Notifier struct {
	log     *slog.Logger
	tracker *tracker.Tracker
	notify  systemd.Notifier
	applied func() func(context.Context) // see process.Client.SettingsApplied; the reconcile loop calls it

	reloads  atomic.Uint64 // that began
	ready    *mailbox.Mailbox[readyRequest]
	complete *mailbox.Mailbox[uint64] // the reload of a readyRequest, when the proxy answers by its settings

	lastLine string // the last line sent to systemd; owned by Run, like failed
	failed   bool   // the last message
}

// readyRequest is the end of a start or a reload in the reconcile loop.
type readyRequest struct {
	reload  uint64 // the number of reloads
	applied func(context.Context)
}

// New returns a notifier. applied returns a function that waits for the settings of the proxy.
func New(log *slog.Logger, tracker *tracker.Tracker, applied func() func(context.Context)) *Notifier {
	return &Notifier{
		log: log, tracker: tracker, applied: applied, ready: mailbox.New[readyRequest](), complete: mailbox.New[uint64](),
	}
}

// Ready implements reconcile.Notifier: it makes run notify systemd that the start or a reload has
// completed. It never blocks.
func (n *Notifier) Ready() { n.ready.Put(readyRequest{n.reloads.Load(), n.applied()}) }

// RunReady completes each start and reload when the proxy answers by its settings, until
// ctx ends.
func (n *Notifier) RunReady(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-n.ready.Values:
			bounded, cancel := context.WithTimeout(ctx, settingsTimeout)
			r.applied(bounded)
			cancel()
			n.complete.Put(r.reload)
		}
	}
}

// send sends the current status line if the readiness must be sent, or if systemd got another
// line before. It logs the first of several errors in a row: the next call repeats the message.
func (n *Notifier) send(ready bool) {
	line := verdict.StatusLine(n.tracker.Report(report.Table{}), time.Now())
	var err error
	switch {
	case ready:
		err = n.notify.Ready(line)
	case line != n.lastLine:
		err = n.notify.Status(line)
	}
	switch {
	case err == nil:
		n.lastLine = line
	case !n.failed:
		n.logError(err)
	}
	n.failed = err != nil
}

// Reloading notifies systemd that a reload began.
func (n *Notifier) Reloading() {
	n.reloads.Add(1)
	n.logError(n.notify.Reloading())
}

func (n *Notifier) logError(err error) {
	if err != nil {
		n.log.Warn("cannot notify systemd", slog.String("event", "notify"), slog.Any("error", err))
	}
}

// Run keeps the status line up to date until ctx ends. Then it notifies systemd that the
// service is stopping. A manager that does not read for some seconds must get a message later: it ends
// a start without the readiness, and shows an old line until the next one.
func (n *Notifier) Run(ctx context.Context) error {
	var ready bool
	var reload uint64
	var pause <-chan time.Time
	changed := n.tracker.Changed()
	for {
		select {
		case <-ctx.Done():
			n.logError(n.notify.Stopping("Stopping: completing requests in flight"))
			return nil
		case reload = <-n.complete.Values:
			ready = true
		case <-changed:
		case <-pause:
			if changed, pause = n.tracker.Changed(), nil; !n.failed {
				continue
			}
		}
		ready = ready && reload == n.reloads.Load() // a reload that began meanwhile is not complete
		n.send(ready)
		ready = ready && n.failed
		if pause == nil {
			changed, pause = nil, time.After(minStatusLineInterval)
		}
	}
}
