// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// recordRuleDelay records the time from an address event to the committed table, if the
// event changed the held VIPs.
func (l *Loop) recordRuleDelay(event time.Time, p plan) {
	committed := l.applier.committed
	if event.IsZero() || committed.Before(event) || slices.Equal(VIPsInState(l.vips, report.VIPHeld), p.Decision.Held) {
		return
	}
	delay := committed.Sub(event)
	l.Tracker.CountEvents(func(e *report.Events) { e.LastRuleDelay = float64(delay.Microseconds()) })
}
