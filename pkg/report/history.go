// SPDX-License-Identifier: Apache-2.0

package report

import (
	"net/netip"
	"time"
)

// MaxHistory bounds the changes in a report.
const MaxHistory = 64

// Change is a change of an API VIP or of a condition on this host. Exactly one of VIP and
// Condition is set.
type Change struct {
	Time      time.Time  `json:"time"` // UTC, in milliseconds
	VIP       netip.Addr `json:"vip,omitzero"`
	Condition string     `json:"condition,omitempty"` // its type
	From      string     `json:"from,omitempty"`      // the VIPState or the Reason before; absent for the first state
	To        string     `json:"to,omitempty"`        // the new one; absent if the address is no API VIP any more
}

// Subject is the VIP or the condition that changed.
func (c Change) Subject() string {
	if c.VIP.IsValid() {
		return c.VIP.String()
	}
	return c.Condition
}
