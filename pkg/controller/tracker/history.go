// SPDX-License-Identifier: Apache-2.0

package tracker

import (
	"net/netip"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// recordVIPs records the VIPs whose state changed. The caller holds mu.
func (t *Tracker) recordVIPs(before, after []report.VIP, now time.Time) {
	for _, v := range after {
		t.record(report.Change{VIP: v.Address, From: stateOf(before, v.Address), To: string(v.State)}, now)
	}
	for _, v := range before {
		if stateOf(after, v.Address) == "" {
			t.record(report.Change{VIP: v.Address, From: string(v.State)}, now)
		}
	}
}

// stateOf returns the state of a VIP; empty if it is not in the list.
func stateOf(vips []report.VIP, address netip.Addr) string {
	i := slices.IndexFunc(vips, func(v report.VIP) bool { return v.Address == address })
	if i < 0 {
		return ""
	}
	return string(vips[i].State)
}

// recordCondition records a changed reason. The caller holds mu.
func (t *Tracker) recordCondition(before, after report.Condition, now time.Time) {
	t.record(report.Change{Condition: after.Type, From: string(before.Reason), To: string(after.Reason)}, now)
}

// record adds a change, and drops the oldest one if there is no room. The caller holds mu.
func (t *Tracker) record(c report.Change, now time.Time) {
	if c.From == c.To {
		return
	}
	if len(t.report.History) == report.MaxHistory {
		t.report.History = slices.Delete(t.report.History, 0, 1)
	}
	c.Time = now.UTC().Truncate(time.Millisecond)
	t.report.History = append(t.report.History, c)
}
