// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"strings"
	"testing"
)

// TestFindRule: a rule with an anonymous chain is returned as one line, as its author wrote
// it.
func TestFindRule(t *testing.T) {
	t.Parallel()
	listing := strings.Split(`table inet openshift_filter {
	chain OPENSHIFT { # handle 1
		type filter hook input priority filter + 1; policy accept;
		tcp dport { 22, 53, 30000-32767 } accept # handle 7
		ip daddr 255.255.255.255 jump {
			limit rate 1/minute log prefix "firewall "
			drop
		} # handle 13
		jump {
			limit rate 1/minute log prefix "firewall "
			drop
		} # handle 17
	}
}
`, "\n")
	for handle, want := range map[uint64]string{
		7:  "tcp dport { 22, 53, 30000-32767 } accept",
		13: `ip daddr 255.255.255.255 jump { limit rate 1/minute log prefix "firewall "; drop; }`,
		17: `jump { limit rate 1/minute log prefix "firewall "; drop; }`,
		3:  "",
	} {
		if got := findRule(listing, handle); got != want {
			t.Errorf("handle %d: %q, want %q", handle, got, want)
		}
	}
	if got := findRule([]string{"\t\t} # handle 9"}, 9); got != "" {
		t.Errorf("without a beginning: %q", got)
	}
}
