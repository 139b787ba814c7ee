// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"time"
)

// The bounds of the messages of a child process. It sends a few messages of some KiB a
// second, and one for each request.
const (
	maxPerSecond      = 1000
	maxBytesPerSecond = 4 << 20
)

// budget counts the messages of a child process in the current second.
type budget struct {
	since    time.Time
	messages int
	bytes    int
}

// spend subtracts one message of length bytes from the budget.
func (b *budget) spend(length int, now time.Time) error {
	if now.Sub(b.since) >= time.Second {
		*b = budget{since: now}
	}
	b.messages++
	b.bytes += length
	if b.messages > maxPerSecond || b.bytes > maxBytesPerSecond {
		return fmt.Errorf("%d messages with %d bytes within a second, more than %d or %d",
			b.messages, b.bytes, maxPerSecond, maxBytesPerSecond)
	}
	return nil
}
