// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// failing is a check that has had an answer, and whose requests fail now.
func failing(vip netip.Addr) *servingCheck {
	r, _, _ := recording()
	vips := []netip.Addr{vip}
	r.board.SetLook(report.Look{Reason: report.Serving, Message: "m", VIPs: []report.VIP{{Address: vip, State: report.VIPHeld}}}, time.Now())
	c := newServingCheck(r.board, r, nil, timing{}.withDefaults())
	c.answer = report.Answer{VIPs: vips}
	c.tell()
	return c
}

func (c *servingCheck) reason() report.Reason {
	return c.board.Report(report.Table{}).Condition().Reason
}

// A flood has no gate replaced, and shows in the state when it has gone on for long.
func TestLoadReplacesNoGate(t *testing.T) {
	t.Parallel()
	vip := netip.MustParseAddr("192.0.2.5")
	c := failing(vip)
	for n := 1; n <= 2*enoughUnderLoad; n++ {
		c.failed([]netip.Addr{vip}, vip, unserved{underLoad, wasReset})
		want := report.Serving
		if n >= enoughUnderLoad {
			want = report.GateUnavailable
		}
		if got := c.reason(); got != want {
			t.Errorf("after %d failures: %s, want %s", n, got, want)
		}
	}
	if len(c.replace) > 0 {
		t.Error("a gate under load is replaced")
	}
}

// A replacement that has not helped is repeated ever later.
func TestReplacementsThatDoNotHelp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		vip := netip.MustParseAddr("192.0.2.5")
		c := failing(vip)
		var after []time.Duration
		for begin := time.Now(); time.Since(begin) < 10*time.Minute; <-time.After(time.Second) {
			c.failed([]netip.Addr{vip}, vip, unserved{atTheGate, "silence"})
			select {
			case <-c.replace:
				after = append(after, time.Since(begin).Round(10*time.Second))
			default:
			}
		}
		if len(after) != 4 || after[1] != time.Minute || after[3] != 7*time.Minute {
			t.Errorf("replaced after %v", after)
		}
		if got := c.reason(); got != report.GateUnavailable {
			t.Errorf("reason %s", got)
		}
	})
}
