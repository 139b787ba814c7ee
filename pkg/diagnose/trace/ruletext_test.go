// SPDX-License-Identifier: Apache-2.0

//go:build linux

package trace

import (
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestParseListing: a rule with an anonymous chain is returned as one line, as its author wrote
// it.
func TestParseListing(t *testing.T) {
	t.Parallel()
	listing := parseListing(`table inet openshift_filter {
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
`)
	for handle, want := range map[uint64]string{
		7:  "tcp dport { 22, 53, 30000-32767 } accept",
		13: `ip daddr 255.255.255.255 jump { limit rate 1/minute log prefix "firewall "; drop; }`,
		17: `jump { limit rate 1/minute log prefix "firewall "; drop; }`,
		3:  "",
	} {
		if got := listing.rule(report.TraceStep{
			Family: "inet", Table: "openshift_filter", Chain: "OPENSHIFT",
			Handle: handle,
		}); got != want {
			t.Errorf("handle %d: %q, want %q", handle, got, want)
		}
	}
}
