// SPDX-License-Identifier: Apache-2.0

package condition

import (
	"fmt"
	"time"
)

// maxClockSkew is the difference between the clocks of two machines that is not
// reported.
const maxClockSkew = time.Minute

// applyMaxAges returns all hosts with the time of their reports.
func applyMaxAges(hosts []HostReport, maxAge time.Duration, now time.Time) []HostReport {
	all := make([]HostReport, len(hosts))
	for i, h := range hosts {
		all[i] = h.applyMaxAge(maxAge, now)
	}
	return all
}

// applyMaxAge returns the host with the time of its report. This is the time in the
// report, or the time of the file if the report has none or an impossible one. A host
// whose report is older than maxAge counts as not reachable since the report reached
// that age; 0 accepts any age.
func (h HostReport) applyMaxAge(maxAge time.Duration, now time.Time) HostReport {
	if !h.Reported.IsZero() && h.clockAhead(now) == 0 {
		h.Observed = h.Reported
	}
	age := now.Sub(h.Observed)
	if !h.answered() || h.Observed.IsZero() || maxAge == 0 || age <= maxAge {
		return h
	}
	return HostReport{
		Name: h.Name, Reported: h.Reported, Observed: h.Observed.Add(maxAge), stale: true,
		Problem: fmt.Sprintf("the report of %s is from %s, %v ago: query the host again, or correct its clock if it is behind",
			h.Name, h.Observed.UTC().Format(time.RFC3339), age.Truncate(time.Second)),
	}
}

// clockAhead returns by how much the report is later than now; 0 within the clock skew.
func (h HostReport) clockAhead(now time.Time) time.Duration {
	if by := h.Reported.Sub(now); by > maxClockSkew {
		return by.Round(time.Second)
	}
	return 0
}
