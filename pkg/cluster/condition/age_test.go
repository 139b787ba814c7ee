// SPDX-License-Identifier: Apache-2.0

package condition_test

import (
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/condition"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestReportAge: the age of each report is relative to now. An old report does not
// count, and a report from the future is named.
func TestReportAge(t *testing.T) {
	t.Parallel()
	const (
		good  = "192.0.2.5 is held and served by m0"
		all   = "; 2 hosts have reported"
		again = ": query the host again, or correct its clock if it is behind"
	)
	// The minutes of a report by the host's clock and by our clock; -1 means unknown.
	type times struct{ own, ours int }
	withTimes := func(h condition.HostReport, when times) condition.HostReport {
		if when.own >= 0 {
			h.Reported = at(when.own)
		}
		if when.ours >= 0 {
			h.Observed = at(when.ours)
		}
		return h
	}
	for name, tt := range map[string]struct {
		holder, standby times
		maxAge          time.Duration
		status          string
		since           int
		message         string
	}{
		"at once":                 {times{50, 50}, times{50, 50}, 5 * time.Minute, "True", 1, good + all},
		"just not too old":        {times{50, 50}, times{45, 50}, 5 * time.Minute, "True", 1, good + all},
		"a standby's":             {times{50, 50}, times{10, 50}, 5 * time.Minute, "Unknown", 15, "the report of m1 is from 2026-01-02T03:10:00Z, 40m0s ago" + again + "; 1 of 2 hosts have reported"},
		"the holder's":            {times{10, 50}, times{50, 50}, 5 * time.Minute, "Unknown", 15, "the report of m0 is from 2026-01-02T03:10:00Z, 40m0s ago" + again + "; 1 of 2 hosts have reported"},
		"both":                    {times{40, 50}, times{44, 50}, 5 * time.Minute, "Unknown", 49, "the report of m0 is from 2026-01-02T03:40:00Z, 10m0s ago" + again + "; the report of m1 is from 2026-01-02T03:44:00Z, 6m0s ago" + again + "; 0 of 2 hosts have reported"},
		"a longer limit":          {times{40, 50}, times{44, 50}, time.Hour, "True", 1, good + all},
		"however old":             {times{0, 0}, times{0, 0}, 0, "True", 1, good + all},
		"no time":                 {times{50, 50}, times{-1, 44}, 5 * time.Minute, "Unknown", 49, "the report of m1 is from 2026-01-02T03:44:00Z, 6m0s ago" + again + "; 1 of 2 hosts have reported"},
		"no time, but a new file": {times{50, 50}, times{-1, 46}, 5 * time.Minute, "True", 1, good + all},
		"no time at all":          {times{-1, -1}, times{-1, -1}, 5 * time.Minute, "True", 1, good + all},
		"clocks differ":           {times{51, 50}, times{50, 50}, 5 * time.Minute, "True", 1, good + all},
		"the holder's clock":      {times{110, 50}, times{50, 50}, 5 * time.Minute, "True", 1, good + "; the report of m0 is from 2026-01-02T04:50:00Z: its clock is ahead by 1h0m0s, or the clock of this machine is behind" + all},
		"a standby's clock":       {times{50, 50}, times{52, 50}, 5 * time.Minute, "True", 1, good + "; the report of m1 is from 2026-01-02T03:52:00Z: its clock is ahead by 2m0s, or the clock of this machine is behind" + all},
		"ahead, and however old":  {times{50, 0}, times{52, 0}, 0, "True", 1, good + "; the report of m1 is from 2026-01-02T03:52:00Z: its clock is ahead by 2m0s, or the clock of this machine is behind" + all},
		"ahead, and an old file":  {times{50, 50}, times{52, 40}, 5 * time.Minute, "Unknown", 45, "the report of m1 is from 2026-01-02T03:40:00Z, 10m0s ago" + again + "; the report of m1 is from 2026-01-02T03:52:00Z: its clock is ahead by 2m0s, or the clock of this machine is behind; 1 of 2 hosts have reported"},
	} {
		hosts := []condition.HostReport{
			withTimes(host(t, "m0", report.Serving, 1, vip4+" Held"), tt.holder),
			withTimes(host(t, "m1", report.Standby, 1, vip4+" Standby"), tt.standby),
		}
		got := condition.Aggregate(hosts, condition.Expectation{MaxAge: tt.maxAge}, nil, at(50))
		if got.Status != tt.status || got.Message != tt.message || !got.LastTransitionTime.Equal(at(tt.since)) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestFailureBeforeStaleReport: a problem of another host takes precedence over an old
// report.
func TestFailureBeforeStaleReport(t *testing.T) {
	t.Parallel()
	old := observedAt(host(t, "m0", report.Serving, 1, vip4+" Held"), 10)
	got := condition.Aggregate([]condition.HostReport{old, observedAt(host(t, "m1", report.PortInUse, 1, vip4+" Held"), 50)}, condition.Expectation{MaxAge: time.Minute}, nil, at(50))
	const want = "m1: reason PortInUse; m0 is not ready (NotReachable): the report of m0 is from 2026-01-02T03:10:00Z, 40m0s ago: query the host again, or correct its clock if it is behind; 1 of 2 hosts have reported"
	if got.Status != "False" || got.Reason != report.PortInUse || got.Message != want {
		t.Errorf("%+v", got)
	}
}

// TestClockAheadOnSingleHost: a clock that is ahead is named without another host to
// compare.
func TestClockAheadOnSingleHost(t *testing.T) {
	t.Parallel()
	h := host(t, "m0", report.Serving, 1, vip4+" Held")
	h.Reported = at(110)
	got := condition.Aggregate([]condition.HostReport{h}, condition.Expectation{MaxAge: time.Minute}, nil, at(50))
	const want = "192.0.2.5 is held and served by m0; the report of m0 is from 2026-01-02T04:50:00Z: its clock is ahead by 1h0m0s, or the clock of this machine is behind; 1 host has reported"
	if got.Status != "True" || got.Message != want {
		t.Errorf("%+v", got)
	}
}
