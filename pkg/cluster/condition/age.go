// SPDX-License-Identifier: Apache-2.0

package condition

import (
	"fmt"
	"time"
)

// maxClockSkew is how far the clocks of two machines may be apart without a word.
const maxClockSkew = time.Minute

// applyMaxAges gives all hosts with the time of their reports.
func applyMaxAges(hosts []HostReport, maxAge time.Duration, now time.Time) []HostReport {
	all := make([]HostReport, len(hosts))
	for i, h := range hosts {
		all[i] = h.applyMaxAge(maxAge, now)
	}
	return all
}

// applyMaxAges gives the host with the time of its report: its own, or when it was asked if it
// does not say, or says what cannot be. A report older than maxAge is that of a host
// that has not answered, since it came to be so old; 0 takes a report however old.
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
		Problem: fmt.Sprintf("the report of %s is of %s, %v ago: ask it again, or set its clock if that is behind",
			h.Name, h.Observed.UTC().Format(time.RFC3339), age.Truncate(time.Second)),
	}
}

// clockAhead is by how much a host has reported later than now; 0 for what clocks differ by.
func (h HostReport) clockAhead(now time.Time) time.Duration {
	if by := h.Reported.Sub(now); by > maxClockSkew {
		return by.Round(time.Second)
	}
	return 0
}

// clockRemarks names the hosts whose clock is ahead. That makes nothing worse than it is: what
// they say of themselves is true, whenever it was.
func clockRemarks(hosts []HostReport, now time.Time) (all []string) {
	for _, h := range hosts {
		if by := h.clockAhead(now); by > 0 {
			all = append(all, fmt.Sprintf("the report of %s is of %s: its clock is ahead by %v, if the one here is right", h.Name, h.Reported.UTC().Format(time.RFC3339), by))
		}
	}
	return all
}
