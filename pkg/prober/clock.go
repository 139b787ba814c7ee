// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"net/netip"
	"time"
)

// ClockRequest asks an NTP server for the time.
type ClockRequest struct {
	Addr netip.AddrPort `json:"addr"`
}

// ClockResult is what it said.
type ClockResult struct {
	Offset time.Duration `json:"offset"` // by which this host's clock is behind the server's
}
