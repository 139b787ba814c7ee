// SPDX-License-Identifier: Apache-2.0

//go:build linux

package trace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
)

// TestSourceRules: which rules depend on the client's address, as the real nft lists them.
func TestSourceRules(t *testing.T) {
	nstest.Require(t)
	for _, tt := range []struct {
		file, text string
		want       []string // parts of the note; nil: no note
	}{
		{text: "table inet x { chain y { type filter hook input priority 0; tcp dport 8888 drop; }; }"},
		{file: "harmless-loopback-antispoof.nft"},
		{file: "policy-decides.nft"},
		{file: "harmless-iptables-multiport.ipt"},
		{file: "iptables-reject.ipt"},
		{file: "reply-dropped-in-output.nft"},
		{file: "ct-state-before-conntrack.nft"},
		{file: "client-filter-before-redirect.nft", want: []string{"that depend on", "inet geo-filter filter-chain handle "}},
		{file: "notrack.nft", want: []string{"that depend on", "ip raw prerouting handle "}},
		{file: "harmless-fib-rpfilter.nft", want: []string{"that depend on", "inet firewalld filter_PREROUTING handle "}},
		{text: "table inet x { chain y { type filter hook input priority 0; jump z; }; chain z { ip saddr 203.0.113.0/24 drop; }; }", want: []string{"inet x z handle "}},
		{text: "table inet x { chain z { ip saddr 203.0.113.0/24 drop; }; }"},                                                // no base chain leads there
		{text: "table inet x { chain y { type filter hook postrouting priority 0; ip saddr 203.0.113.0/24 drop; }; }"},       // the VIP is the source there
		{text: "table inet x { chain y { type filter hook input priority 0; ip saddr 203.0.113.0/24 counter; }; }"},          // no verdict
		{text: "table inet http01-proxyd { chain y { type filter hook input priority 0; ip saddr 203.0.113.0/24 drop; }; }"}, // the service's
		{text: "table inet x { chain y { type filter hook input priority 0; ip saddr vmap { 203.0.113.1 : drop }; }; }", want: []string{"inet x y handle "}},
		{
			text: "table inet x { chain y { type filter hook input priority 0; ip saddr 203.0.113.1 drop; ip saddr 203.0.113.2 drop; ip saddr 203.0.113.3 drop; ip saddr 203.0.113.4 drop; }; }",
			want: []string{", 1 more)"},
		},
		{text: manyRanges(150000), want: []string{"inet x y handle "}},
	} {
		t.Run(tt.file+tt.text[:min(len(tt.text), 120)], func(t *testing.T) {
			tool, text := []string{"nft", "-f", "-"}, tt.text
			if tt.file != "" {
				content, err := os.ReadFile(filepath.Join("testdata", "firewall", tt.file))
				must(t, err)
				if text = string(content); strings.HasSuffix(tt.file, ".ipt") {
					tool = []string{"iptables-nft-restore"}
				}
			}
			nstest.RunWithInput(t, text, tool[0], tool[1:]...)
			undo(t, "nft", "flush", "ruleset")
			got, err := DescribeSourceRules(t.Context())
			must(t, err)
			if tt.want == nil && got != "" {
				t.Errorf("note: %s", got)
			}
			for _, part := range tt.want {
				if !strings.Contains(got, part) {
					t.Errorf("no %q in: %s", part, got)
				}
			}
		})
	}
	t.Run("iptables", func(t *testing.T) {
		nstest.Run(t, "iptables-nft", "-A", "INPUT", "-m", "iprange", "--src-range", "203.0.113.1-203.0.113.9", "-j", "DROP")
		undo(t, "nft", "flush", "ruleset")
		got, err := DescribeSourceRules(t.Context())
		if err != nil || !strings.Contains(got, "rules that may depend on the client's address (ip filter INPUT handle ") {
			t.Errorf("%v: %s", err, got)
		}
	})
	t.Run("without nft", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		if _, err := DescribeSourceRules(t.Context()); err == nil || !strings.Contains(err.Error(), "run nft") {
			t.Errorf("%v", err)
		}
	})
}

// manyRanges is a ruleset with many networks.
func manyRanges(count int) string {
	elements := make([]string, count)
	for i := range count {
		elements[i] = fmt.Sprintf("%d.%d.%d.0-%[1]d.%[2]d.%[3]d.9", 20+i/65536, i/256%256, i%256)
	}
	return "table inet x {\nset many { type ipv4_addr; flags interval; elements = { " + strings.Join(elements, ", ") +
		" } }\nchain y { type filter hook input priority 0; ip saddr @many drop; }\n}\n"
}
