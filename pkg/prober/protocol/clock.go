// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"net/netip"
	"time"
)

// ClockRequest requests the time of an NTP server.
type ClockRequest struct {
	Addr netip.AddrPort `json:"addr"`
}

// ClockResult is the result of a [ClockRequest].
type ClockResult struct {
	Offset time.Duration `json:"offset"` // time of the server less the time of this host
}
