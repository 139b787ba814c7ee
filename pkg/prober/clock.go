// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"net/netip"
	"time"
)

// ClockQuestion asks an NTP server for the time.
type ClockQuestion struct {
	Addr netip.AddrPort `json:"addr"`
}

// Clock is what it said.
type Clock struct {
	Offset time.Duration `json:"offset"` // by which this host's clock is behind the server's
}
