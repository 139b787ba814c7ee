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
		{file: "harmless-docker.ipt"},
		{file: "harmless-podman.nft"},
		{file: "harmless-firewalld.nft", want: []string{
			"inet firewalld filter_PREROUTING handle ",
			", inet firewalld filter_OUTPUT handle ",
		}},
		{file: "../../../../../test/suites/check/testdata/openshift.nft"},
		{file: "../../../../../test/suites/check/testdata/openshift.iptables"},
		{file: "../../../../../test/suites/check/testdata/commatrix/after/communication-matrix-master.nft"},
		{file: "harmless-fib-rpfilter.nft", want: []string{"that depend on", "inet firewalld filter_PREROUTING handle "}},
		{text: "table inet x { chain y { type filter hook input priority 0; jump z; }; chain z { ip saddr " +
			"203.0.113.0/24 drop; }; }", want: []string{"inet x z handle "}},
		// no base chain leads there
		{text: "table inet x { chain z { ip saddr 203.0.113.0/24 drop; }; }"},
		// the VIP is the source there
		{text: "table inet x { chain y { type filter hook postrouting priority 0; ip saddr 203.0.113.0/24 drop; }; }"},
		// no verdict
		{text: "table inet x { chain y { type filter hook input priority 0; ip saddr 203.0.113.0/24 counter; }; }"},
		// the service's
		{text: "table inet http01-proxyd { chain y { type filter hook input priority 0; ip saddr 203.0.113.0/24 drop; }; }"},
		{
			text: "table inet x { chain y { type filter hook input priority 0; ip saddr vmap { 203.0.113.1 : drop }; }; }",
			want: []string{"inet x y handle "},
		},
		{
			text: "table inet x { chain y { type filter hook input priority 0; ip saddr 203.0.113.1 drop; ip saddr " +
				"203.0.113.2 drop; ip saddr 203.0.113.3 drop; ip saddr 203.0.113.4 drop; }; }",
			want: []string{", 1 more)"},
		},
		{text: in("input", `iifname != "lo" ip saddr 203.0.113.0/24 drop`), want: []string{"inet x y handle "}},
		{text: in("input", `iifname { "lo", "eth0" } ip saddr 203.0.113.0/24 drop`), want: []string{"inet x y handle "}},
		{text: in("input", "ip saddr { 127.0.0.0/8, 203.0.113.0/24 } drop"), want: []string{"inet x y handle "}},
		{text: in("input", "jump { ip saddr 203.0.113.0/24 drop; }"), want: []string{"inet x y handle "}},
		{text: in("input", "ct original ip saddr 203.0.113.0/24 drop"), want: []string{"inet x y handle "}},
		{text: in("input", "@nh,96,32 0xcb007101 drop"), want: []string{"inet x y handle "}},
		{text: in("input", "ip saddr . tcp dport { 203.0.113.1 . 80 } drop"), want: []string{"inet x y handle "}},
		{text: in("input", "meter m { ip saddr limit rate over 3/second } drop"), want: []string{"inet x y handle "}},
		{text: in("input", "add @seen { ip saddr limit rate over 3/second } drop"), want: []string{"inet x y handle "}},
		// -t does not print where a map leads
		{text: in("input", "tcp dport vmap @ports"), want: []string{"inet x web handle "}},
		{text: in("input", "tcp dport { 22, 80-81 } ip6 saddr 2001:db8::/32 drop"), want: []string{"inet x y handle "}},
		{text: in("input", "tcp dport != 22 ip saddr 203.0.113.0/24 drop"), want: []string{"inet x y handle "}},
		{text: in("output", "ip daddr 203.0.113.0/24 tcp sport 8888 drop"), want: []string{"inet x y handle "}}, // of a reply
		{text: in("postrouting", "ip daddr 203.0.113.0/24 drop"), want: []string{"inet x y handle "}},
		{
			text: "table netdev x { chain y { type filter hook ingress device lo priority 0; ip saddr 203.0.113.0/24 drop; }; }",
			want: []string{"netdev x y handle "},
		},
		{
			text: "table netdev x { chain y { type filter hook egress device lo priority 0; ip daddr 203.0.113.0/24 drop; }; }",
			want: []string{"netdev x y handle "},
		},
		{text: "table inet x { map m { type inet_service : verdict; }; chain f { type filter hook forward priority 0; ip " +
			"saddr 203.0.113.0/24 drop; }; chain y { type filter hook input priority 0; tcp dport vmap @m; }; }"},
		{text: in("output", "ip saddr 203.0.113.0/24 drop")},
		{text: in("forward", "ip saddr 203.0.113.0/24 drop")},
		// replies have no NAT of their own
		{text: "table ip x { chain y { type nat hook postrouting priority 0; ip daddr 203.0.113.0/24 masquerade; }; }"},
		{text: in("input", "ip saddr 203.0.113.0/24 tcp dport 22 accept")},
		{text: in("input", "ip saddr 203.0.113.0/24 th dport { 53, 3000-4000 } accept")},
		{text: in("input", "ip saddr 203.0.113.0/24 icmp type echo-request accept")},
		{text: in("input", "meta l4proto udp ip saddr 203.0.113.0/24 accept")},
		{text: in("input", "ip protocol tcp ip saddr 203.0.113.0/24 drop"), want: []string{"inet x y handle "}},
		{text: in("input", "ip saddr { 127.1.0.0/16, 127.0.0.2-127.0.0.9 } drop")},
		{text: in("input", "ip saddr != 127.0.0.0/8 drop")},
		{text: in("input", "iif lo jump web")},
		{text: in("input", "ether saddr 02:00:00:00:00:01 drop")},
		{text: "table inet x {\nchain y { type filter hook input priority 0;\n" +
			strings.Repeat("ip saddr 203.0.113.0/24 drop\n", 20000) + "}\n}\n", want: []string{
			"inet x y handle 2, ",
			", 19997 more)",
		}},
		{text: manyRanges(150000), want: []string{"inet x y handle "}},
	} {
		t.Run(tt.file+tt.text[:min(len(tt.text), 400)], func(t *testing.T) {
			tool, text := []string{"nft", "-f", "-"}, tt.text
			if tt.file != "" {
				content, err := os.ReadFile(filepath.Join("testdata", "firewall", tt.file))
				must(t, err)
				if text = string(content); !strings.HasSuffix(tt.file, ".nft") {
					tool = []string{"iptables-nft-restore"}
				}
			}
			nstest.RunWithInput(t, text, tool[0], tool[1:]...)
			undo(t, "nft", "flush", "ruleset")
			got, err := DescribeSourceRules(t.Context(), internalPort)
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
	for rule, want := range map[string]string{
		"-m iprange --src-range 203.0.113.1-203.0.113.9 -j DROP": "that depend on the client's address (ip filter " +
			"INPUT handle ",
		"-s 203.0.113.0/24 -j REJECT":                   "that depend on the client's address (ip filter INPUT handle ",
		"! -s 127.0.0.0/8 -d 127.0.0.0/8 -j DROP":       "", // of kubelet
		"-s 203.0.113.0/24 -p tcp --dport 22 -j REJECT": "",
	} {
		t.Run("iptables "+rule, func(t *testing.T) {
			nstest.Run(t, "iptables-nft", append([]string{"-A", "INPUT"}, strings.Fields(rule)...)...)
			undo(t, "nft", "flush", "ruleset")
			got, err := DescribeSourceRules(t.Context(), internalPort)
			if err != nil || !strings.Contains(got, want) || want == "" && got != "" {
				t.Errorf("%v: %s", err, got)
			}
		})
	}
	t.Run("without nft", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		if _, err := DescribeSourceRules(t.Context(), internalPort); err == nil || !strings.Contains(err.Error(), "run nft") {
			t.Errorf("%v", err)
		}
	})
}

// in is a rule in a hook of a table with a chain, a set and a map.
func in(hook, rule string) string {
	return "table inet x {\nset seen { type ipv4_addr; flags dynamic; size 100; }\nchain web { ip saddr " +
		"203.0.113.0/24 drop; }\n" +
		"map ports { type inet_service : verdict; elements = { 80 : jump web }; }\n" +
		"chain y { type filter hook " + hook + " priority 0; " + rule + "; }\n}\n"
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
