// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"
	"time"
)

// What a child may send. One of ours sends a few messages a second, of some KiB,
// and one more for each question that it is asked.
const (
	maxPerSecond      = 1000
	maxBytesPerSecond = 4 << 20
	// maxValues bounds what one message decodes to: a value has at most some hundred
	// bytes as a struct. The largest News has some 5,000 values.
	maxValues = 8192
)

// rateBudget counts the messages of a child in the current second.
type rateBudget struct {
	since    time.Time
	messages int
	bytes    int
}

// spend takes one message of that many bytes out of the budget.
func (b *rateBudget) spend(length int, now time.Time) error {
	if now.Sub(b.since) >= time.Second {
		*b = rateBudget{since: now}
	}
	b.messages++
	b.bytes += length
	if b.messages > maxPerSecond || b.bytes > maxBytesPerSecond {
		return fmt.Errorf("receive a control message: %d messages with %d bytes within a second, more than %d or %d", b.messages, b.bytes, maxPerSecond, maxBytesPerSecond)
	}
	return nil
}

// countValues counts the values of a JSON text, before anything is decoded: members of
// objects and lists, be the text valid or not.
func countValues(text []byte) (n int) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '{' || c == '['):
			n++
		}
	}
	return n
}
