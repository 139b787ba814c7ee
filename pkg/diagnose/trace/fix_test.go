// SPDX-License-Identifier: Apache-2.0

//go:build linux

package trace_test

import (
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/trace"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// dropped is a packet that a chain dropped: "HOOK: FAMILY TABLE CHAIN". Its port at that place
// is 80 or 8888.
func dropped(vip, chain string, port uint16, reply bool) report.TracedPacket {
	hook, name, _ := strings.Cut(chain, ": ")
	f := strings.Fields(name)
	return report.TracedPacket{
		VIP: netip.AddrPortFrom(netip.MustParseAddr(vip), 80), Reply: reply, End: report.TraceDropped,
		Steps: []report.TraceStep{
			{Family: "inet", Table: "other", Chain: "first", Hook: "prerouting", Verdict: "accept", Port: 80},
			{Family: f[0], Table: f[1], Chain: f[2], Hook: hook, Verdict: "drop", Port: port},
		},
	}
}

// firewall is a ruleset that drops packets, and the command that lets them pass.
type firewall struct {
	ruleset string // in nft syntax; empty: it needs another program
	packet  report.TracedPacket
	fix     string
}

const vip4, vip6 = "192.0.2.5", "2001:db8::5"

func firewalls() map[string]firewall {
	return map[string]firewall{
		"input": {
			"table inet filter { chain input { type filter hook input priority 0; policy drop; tcp sport 8888 accept; }; }",
			dropped(vip4, "input: inet filter input", 8888, false), "nft insert rule inet filter input tcp dport 8888 accept",
		},
		"input, IPv6": {
			"table ip6 filter { chain input { type filter hook input priority 0; tcp dport 8888 drop; }; }",
			dropped(vip6, "input: ip6 filter input", 8888, false), "nft insert rule ip6 filter input tcp dport 8888 accept",
		},
		"a chain that another one calls": {
			"table inet filter { chain ports { tcp dport 8888 drop; }; chain input { type filter hook input priority 0; jump " +
				"ports; }; }",
			dropped(vip4, "input: inet filter input", 8888, false), "nft insert rule inet filter input tcp dport 8888 accept",
		},
		"before the redirect": {
			"table inet geo-filter { chain pre { type filter hook prerouting priority -190; tcp dport 80 drop; }; }",
			dropped(vip4, "prerouting: inet geo-filter pre", 80, false),
			"nft insert rule inet geo-filter pre ip daddr 192.0.2.5 tcp dport 80 accept",
		},
		"before the redirect, IPv6": {
			"table inet geo-filter { chain pre { type filter hook prerouting priority -190; tcp dport 80 drop; }; }",
			dropped(vip6, "prerouting: inet geo-filter pre", 80, false),
			"nft insert rule inet geo-filter pre ip6 daddr 2001:db8::5 tcp dport 80 accept",
		},
		"at the ingress of a device": {
			`table netdev x { chain y { type filter hook ingress device "lo" priority -500; tcp dport 80 drop; }; }`,
			dropped(vip4, "ingress: netdev x y", 80, false), "nft insert rule netdev x y ip daddr 192.0.2.5 tcp dport 80 accept",
		},
		"the reply": {
			"table inet filter { chain output { type filter hook output priority 0; tcp sport 8888 drop; }; }",
			dropped(vip4, "output: inet filter output", 8888, true), "nft insert rule inet filter output tcp sport 8888 accept",
		},
		"the reply, after the translation": {
			"table ip6 filter { chain out { type filter hook postrouting priority 200; tcp sport 80 drop; }; }",
			dropped(vip6, "postrouting: ip6 filter out", 80, true),
			"nft insert rule ip6 filter out ip6 saddr 2001:db8::5 tcp sport 80 accept",
		},
		"iptables": {
			"table ip filter { chain INPUT { type filter hook input priority 0; policy accept; tcp dport 8888 counter drop; }; }",
			dropped(vip4, "input: ip filter INPUT", 8888, false), "iptables -I INPUT -p tcp --dport 8888 -j ACCEPT",
		},
		"iptables, the reply": {
			"table ip6 mangle { chain OUTPUT { type route hook output priority -150; policy accept; tcp sport 8888 " +
				"counter drop; }; }",
			dropped(vip6, "output: ip6 mangle OUTPUT", 8888, true),
			"ip6tables -t mangle -I OUTPUT -p tcp --sport 8888 -j ACCEPT",
		},
		"iptables, before the redirect": {
			"table ip raw { chain PREROUTING { type filter hook prerouting priority -300; policy accept; tcp dport 80 " +
				"counter drop; }; }",
			dropped(vip4, "prerouting: ip raw PREROUTING", 80, false),
			"iptables -t raw -I PREROUTING -d 192.0.2.5 -p tcp --dport 80 -j ACCEPT",
		},
		"firewalld": {
			"", dropped(vip4, "input: inet firewalld filter_INPUT", 8888, false),
			"firewall-cmd --add-port=8888/tcp",
		},
		"firewalld, not the default zone": {
			"", inZone(dropped(vip4, "input: inet firewalld filter_INPUT", 8888, false)),
			"firewall-cmd --zone=internal --add-port=8888/tcp",
		},
		"firewalld, no zone decides about the reply": {
			"table inet firewalld { chain filter_OUTPUT { type filter hook output priority 10; tcp sport 8888 drop; }; }",
			dropped(vip4, "output: inet firewalld filter_OUTPUT", 8888, true),
			"nft insert rule inet firewalld filter_OUTPUT tcp sport 8888 accept",
		},
		"a name that a shell would read": {"", dropped(vip4, "input: inet $(reboot) input", 8888, false), ""},
		"not dropped": {"", report.TracedPacket{
			End:   report.TraceLost,
			Steps: []report.TraceStep{{Family: "ip", Table: "a", Chain: "b"}},
		}, ""},
		"no steps": {"", report.TracedPacket{End: report.TraceDropped}, ""},
	}
}

func inZone(p report.TracedPacket) report.TracedPacket {
	p.Steps[len(p.Steps)-1].Passed = []report.TraceRule{
		{Chain: "filter_INPUT", Rule: "jump filter_INPUT_ZONES"},
		{Chain: "filter_INPUT_ZONES", Rule: `iifname "br-ex" goto filter_IN_internal`},
	}
	return p
}

// TestFix: the command for each kind of table, hook and packet.
func TestFix(t *testing.T) {
	t.Parallel()
	for name, tt := range firewalls() {
		if got := trace.Fix(tt.packet, 8888); got != tt.fix {
			t.Errorf("%s: %q, want %q", name, got, tt.fix)
		}
	}
}

// TestFixWorks runs each command as a root shell does: a connection that the kernel dropped
// is established then.
func TestFixWorks(t *testing.T) {
	nstest.Require(t)
	nstest.AddAddress(t, "lo", vip4+"/32")
	nstest.AddAddress(t, "lo", vip6+"/128")
	for _, port := range []string{"80", "8888"} {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort("::", port))
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
	}
	connect := func(p report.TracedPacket, timeout time.Duration) error {
		at := netip.AddrPortFrom(p.VIP.Addr(), p.Steps[len(p.Steps)-1].Port)
		conn, err := (&net.Dialer{Timeout: timeout}).DialContext(t.Context(), "tcp", at.String())
		if err == nil {
			conn.Close()
		}
		return err
	}
	for name, tt := range firewalls() {
		if tt.ruleset == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			nstest.RunWithInput(t, tt.ruleset, "nft", "-f", "-")
			defer nstest.Run(t, "nft", "flush", "ruleset")
			if err := connect(tt.packet, 100*time.Millisecond); err == nil {
				t.Fatal("the ruleset drops nothing")
			}
			if out, err := exec.CommandContext(t.Context(), "sh", "-c", tt.fix).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", tt.fix, err, out)
			}
			if err := connect(tt.packet, time.Minute); err != nil {
				t.Errorf("%s: %v\n%s", tt.fix, err, nstest.Run(t, "nft", "list", "ruleset"))
			}
		})
	}
}
