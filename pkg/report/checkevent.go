// SPDX-License-Identifier: Apache-2.0

package report

import "net/netip"

// CheckEvent is a line that `http01-proxyd check --coordinated` prints before its document.
type CheckEvent struct {
	Kind  string       `json:"kind"`            // CheckStarted or CheckTracing
	Holds []netip.Addr `json:"holds,omitempty"` // the API VIPs of the host when it started
}

// The kinds of events of a check.
const (
	CheckStarted = "CheckStarted" // the check runs
	CheckTracing = "CheckTracing" // the host follows packets to its VIPs
)

// The lines that `oc http01 check` writes to the standard input of a check, in this order. A
// host that holds no VIP gets CheckBegin and CheckTest only.
const (
	CheckBegin = "begin" // the output is being read: the check may print events
	CheckTrace = "trace" // the checks of all hosts run: follow packets to the VIPs
	CheckTest  = "test"  // the holders follow packets: send the test requests
	CheckEnd   = "end"   // the other hosts are finished: stop following packets
)
