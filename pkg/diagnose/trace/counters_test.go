// SPDX-License-Identifier: Apache-2.0

package trace

import "testing"

// TestProcessors: the counters of all processors are added. They are hexadecimal.
func TestProcessors(t *testing.T) {
	t.Parallel()
	const head = "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop " +
		"icmp_error\n"
	for text, want := range map[string]uint64{
		head: 0,
		head + "0000abcd  0 0 0 0 0 0 0 0 0 0000000f 00000001 0\n0000abcd  0 0 0 0 0 0 0 0 0 00000010 00000001 0\n": 31,
		head + "0000abcd 0\n": 0, // cut off
		"":                    0,
	} {
		c := make(counters)
		c.addProcessors("conntrack ", text)
		if got := c["conntrack drop"]; got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}
