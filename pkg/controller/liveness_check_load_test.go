// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// newFailingLivenessCheck is a check that has had an answer, and whose requests fail now.
func newFailingLivenessCheck(vip netip.Addr) *livenessCheck {
	r, _, _ := newStatsRecorderTest()
	vips := []netip.Addr{vip}
	r.tracker.SetReconcileResult(tracker.ReconcileResult{Reason: report.Serving, Message: "m", VIPs: []report.VIP{{Address: vip, State: report.VIPHeld}}}, time.Now())
	c := newLivenessCheck(r.tracker, r, nil, timing{}.withDefaults())
	c.answer = tracker.VIPProbe{Answered: vips}
	c.publish()
	return c
}

func (c *livenessCheck) reason() report.Reason {
	return c.tracker.Report(report.Table{}).Condition().Reason
}

// A flood has no gate replaced, and shows in the state when it has gone on for long.
func TestLoadDoesNotReplaceProxy(t *testing.T) {
	t.Parallel()
	vip := netip.MustParseAddr("192.0.2.5")
	c := newFailingLivenessCheck(vip)
	for n := 1; n <= 2*loadFailureThreshold; n++ {
		c.recordFailure([]netip.Addr{vip}, vip, requestFailure{underLoad, connectionReset})
		want := report.Serving
		if n >= loadFailureThreshold {
			want = report.ProxyUnavailable
		}
		if got := c.reason(); got != want {
			t.Errorf("after %d failures: %s, want %s", n, got, want)
		}
	}
	if len(c.replacements) > 0 {
		t.Error("a gate under load is replaced")
	}
}

// A replacement that has not helped is repeated ever later.
func TestReplacementBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		vip := netip.MustParseAddr("192.0.2.5")
		c := newFailingLivenessCheck(vip)
		var after []time.Duration
		for begin := time.Now(); time.Since(begin) < 10*time.Minute; <-time.After(time.Second) {
			c.recordFailure([]netip.Addr{vip}, vip, requestFailure{proxyFailed, "silence"})
			select {
			case <-c.replacements:
				after = append(after, time.Since(begin).Round(10*time.Second))
			default:
			}
		}
		if len(after) != 4 || after[1] != time.Minute || after[3] != 7*time.Minute {
			t.Errorf("replaced after %v", after)
		}
		if got := c.reason(); got != report.ProxyUnavailable {
			t.Errorf("reason %s", got)
		}
	})
}
