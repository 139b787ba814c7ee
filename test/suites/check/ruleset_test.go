// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// firewallCases has rulesets of public reports, which pkg/diagnose/trace tests too.
const firewallCases = "../../../pkg/diagnose/trace/testdata/firewall"

// packetCase is a ruleset on the node that holds the VIPs, what a client on another host
// gets, and what check reports.
type packetCase struct {
	name   string
	text   string // of nft; the placeholders V4 and V6 are the API VIPs
	file   string // of firewallCases, instead of text
	before string // a command on the holder; undo reverts it
	undo   string
	second bool // the holder has a second NIC

	v4, v6 bool // a client gets the response of the service
	ids    []string
	texts  []string
	fixed  bool // the commands of the finding end the fault
}

// TestRuleset loads rulesets of administrators, public reports and Kubernetes Services. A real
// packet decides what is right: check must find the rule that keeps clients from the
// service, and find nothing where they reach it.
func TestRuleset(t *testing.T) {
	c := healthy(t, nil)
	policy := "table inet admin_filter {\nchain input { type filter hook input priority 5; policy drop; ct state " +
		"established,related accept; iif lo accept; " +
		"meta l4proto { icmp, ipv6-icmp, vrrp } accept; %s tcp dport { 22, 80, 443, 6443 } accept; }\n}\n"
	standby := c.standbyAddress()
	for _, tt := range []packetCase{
		{
			name: "ct state before connection tracking", file: "ct-state-before-conntrack.nft", ids: []string{"packet-dropped"},
			texts: []string{"chain inet raw pre", "ct state invalid drop", "at port 80"}, fixed: true,
		},
		{
			name: "notrack", file: "notrack.nft", v6: true, ids: []string{"packet-not-redirected"},
			texts: []string{"chain ip raw prerouting", "tcp dport 80 notrack"}, fixed: true,
		},
		{
			name: "a client filter before the redirect", file: "client-filter-before-redirect.nft",
			ids: []string{"packet-dropped"}, texts: []string{
				"chain inet geo-filter filter-chain", "its policy is drop",
				"at port 80",
			}, fixed: true,
		},
		{
			name: "the policy decides", file: "policy-decides.nft", ids: []string{"packet-dropped"},
			texts: []string{"chain inet filter input", "its policy is drop", "at port 8888", "--host-open-ports"}, fixed: true,
		},
		{
			name: "a reply dropped in output", file: "reply-dropped-in-output.nft", ids: []string{"reply-dropped"},
			texts: []string{"chain inet filter output", "its policy is drop"}, fixed: true,
		},
		{
			name: "a reply dropped in postrouting", file: "reply-dropped-in-postrouting.nft", ids: []string{"reply-dropped"},
			texts: []string{"chain inet filter post", "its policy is drop"}, fixed: true,
		},
		{
			name: "iptables rejects", file: "iptables-reject.ipt", v6: true, ids: []string{"packet-dropped"},
			texts: []string{"chain ip filter INPUT", "reject"}, fixed: true,
		},
		{name: "protection against spoofed loopback", file: "harmless-loopback-antispoof.nft", v4: true, v6: true},
		{
			name: "dropped at the device",
			text: "table netdev x {\nchain y { type filter hook ingress device \"br-ex\" priority -500; tcp dport 80 " +
				"drop; }\n}\n",
			ids: []string{"packet-dropped"}, texts: []string{"chain netdev x y", "tcp dport 80 drop"}, fixed: true,
		},
		{
			name: "a reply dropped at the device",
			text: "table netdev x {\nchain y { type filter hook egress device \"br-ex\" priority 0; tcp sport 80 drop; }\n}\n",
			ids:  []string{"reply-dropped"}, texts: []string{"chain netdev x y", "tcp sport 80 drop"}, fixed: true,
		},
		{
			name: "port 80 dropped in prerouting",
			text: "table inet x {\nchain y { type filter hook prerouting priority raw; tcp dport 80 drop; }\n}\n",
			ids:  []string{"packet-dropped"}, texts: []string{"chain inet x y", "tcp dport 80 drop", "at port 80"}, fixed: true,
		},
		{
			name: "one family",
			text: "table inet x {\nchain y { type filter hook input priority 0; iif != lo meta nfproto ipv6 tcp dport 8888 " +
				"drop; }\n}\n", v4: true,
			ids: []string{"packet-dropped"}, texts: []string{"tcp dport 8888 drop", "V6 are dropped"}, fixed: true,
		},
		{
			name: "a rule in another chain",
			text: "table inet x {\nchain y { type filter hook input priority 5; jump ports; }\nchain ports { iifname " +
				"\"br-ex\" tcp dport 8000-9000 counter reject; }\n}\n",
			ids: []string{"packet-dropped"}, texts: []string{
				"chain inet x ports", `iifname "br-ex" tcp dport 8000-9000 counter`,
				"(handle ",
			}, fixed: true,
		},
		{
			name: "a list of ports", text: fmt.Sprintf(policy, ""), ids: []string{"packet-dropped"},
			texts: []string{"chain inet admin_filter input", "its policy is drop"}, fixed: true,
		},
		{
			name: "a rule for some clients",
			text: "table inet x {\nchain y { type filter hook input priority 5; ip saddr 203.0.113.0/24 tcp dport 8888 " +
				"drop; }\n}\n", v4: true, v6: true,
		},
		{
			name: "a redirect that comes first",
			text: "table ip x {\nchain y { type nat hook prerouting priority -150; ip daddr V4 tcp dport 80 dnat to " +
				":9445; }\n}\n", v6: true,
			ids: []string{"packet-not-redirected"}, texts: []string{"chain ip x y", "dnat to :9445", "port 80 of V4"},
			fixed: true,
		},
		{
			name: "a Service with the VIP among its externalIPs",
			text: "table ip x {\nmap service-ips { type ipv4_addr . inet_service : verdict; elements = { V4 . 80 : goto " +
				"external-web } }\n" +
				"chain external-web { meta l4proto tcp dnat to 10.128.0.2:8080; }\nchain nat-prerouting { type nat hook " +
				"prerouting priority -120; ip daddr . tcp dport vmap @service-ips; }\n}\n",
			v6: true, ids: []string{"packet-not-redirected"}, texts: []string{
				"chain ip x external-web",
				"dnat to 10.128.0.2:8080", "externalIPs",
			}, fixed: true,
		},
		{
			name: "a later redirect",
			text: "table ip x {\nchain y { type nat hook prerouting priority dstnat; ip daddr V4 tcp dport 80 dnat to " +
				"192.0.2.200:80; }\n}\n", v4: true, v6: true,
		},
		{
			name: "iptables with state, mark and connection tracking",
			before: "iptables-nft -t mangle -A PREROUTING -p tcp --dport 80 -j MARK --set-mark 7; " +
				"iptables-nft -A INPUT -p tcp -m conntrack --ctstate NEW -m mark --mark 7 -j DROP",
			undo: "nft delete table ip mangle; nft delete table ip filter",
			v6:   true, ids: []string{"packet-dropped"}, texts: []string{"chain ip filter INPUT"}, fixed: true,
		},
		{
			name: "150,000 ranges with the client", text: manyRanges(150000, standby),
			ids: []string{"packet-dropped"}, texts: []string{"chain inet x y", "@many drop"}, v4: true, v6: true, fixed: true,
		},
		{
			name: "strict reverse path filter",
			before: "ip link add asym type veth peer name asym2; ip link set asym up; ip route add " + standby.String() +
				"/32 dev asym; " +
				"sysctl -qw net.ipv4.conf.br-ex.rp_filter=1",
			undo: "sysctl -qw net.ipv4.conf.br-ex.rp_filter=0; ip link del asym",
			v4:   true, v6: true, ids: []string{"packet-lost"}, texts: []string{standby.String(), "IPReversePathFilter"},
		},
		{
			name: "strict reverse path filter, and a second link to the client", second: true,
			// Clients find the VIP on br-ex only.
			before: "sysctl -qw net.ipv4.conf.second.arp_ignore=8; ip route add " + standby.String() + "/32 dev second; sysctl -qw net.ipv4.conf.br-ex.rp_filter=1",
			undo:   "sysctl -qw net.ipv4.conf.br-ex.rp_filter=0; ip route del " + standby.String() + "/32 dev second",
			v4:     true, v6: true, ids: []string{"packet-lost"}, texts: []string{standby.String(), "IPReversePathFilter"},
			fixed: true,
		},
		{
			name: "only this host itself",
			text: "table inet x {\nchain y { type filter hook output priority 0; oif lo tcp dport 8888 drop; }\n}\n", v4: true,
			v6: true, ids: []string{"local-traffic-blocked"}, texts: []string{"chain inet x y", "tcp dport 8888 drop"},
			fixed: true,
		},
		{
			name: "rules of firewalld",
			text: "table inet x {\nchain y { type filter hook input priority 10; ct state established,related accept; ct " +
				"status dnat accept; iifname \"lo\" accept; " +
				"meta l4proto { icmp, ipv6-icmp, vrrp } accept; reject with icmpx admin-prohibited; }\n}\n",
			v4: true, v6: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := c.forSubtest(t)
			c.loadCase(tt)
			c.expectPackets(tt.v4, tt.v6)
			flags := []string{"--only", "ruleset"}
			if len(tt.ids) == 0 {
				flags = nil // no check finds anything
			}
			r := c.expectFindings(c.holder(), append([]string{}, tt.ids...), flags...)
			for _, id := range tt.ids {
				for _, text := range tt.texts {
					c.expectText(r, id, c.withVIPs(text))
				}
			}
			if !tt.fixed {
				return
			}
			if len(tt.ids) == 0 || len(r.Commands(tt.ids[0])) == 0 {
				t.Fatalf("no command: %+v", r)
			}
			must(t, c.holder().RunCommands(t.Context(), r.Commands(tt.ids[0])))
			c.expectPackets(true, true)
			c.expectFindings(c.holder(), []string{}, "--only", "ruleset")
		})
	}
}

// standbyAddress is the address from which a standby node tests the VIPs.
func (c *cluster) standbyAddress() netip.Addr { return c.ControlPlane[2].Addresses.V4 }

func (c *cluster) withVIPs(text string) string {
	return strings.NewReplacer("V4", c.API.V4.String(), "V6", c.API.V6.String()).Replace(text)
}

// manyRanges is a ruleset that drops the packets of many networks, and of one client.
func manyRanges(count int, client netip.Addr) string {
	var elements []string
	for i := range count {
		elements = append(elements, fmt.Sprintf("%d.%d.%d.0-%[1]d.%[2]d.%[3]d.9", 20+i/65536, i/256%256, i%256))
	}
	if client.IsValid() {
		elements = append(elements, client.String())
	}
	return "table inet x {\nset many { type ipv4_addr; flags interval; elements = { " + strings.Join(elements, ", ") +
		" } }\nchain y { type filter hook input priority 0; tcp dport 8888 ip saddr @many drop; }\n}\n"
}

// loadCase loads the ruleset of a case into the holder until the test ends.
func (c *cluster) loadCase(tt packetCase) {
	c.t.Helper()
	n, text, tool := c.holder(), c.withVIPs(tt.text), []string{"nft", "-f", "-"}
	if tt.file != "" {
		content, err := os.ReadFile(filepath.Join(firewallCases, tt.file))
		must(c.t, err)
		if text = string(content); strings.HasSuffix(tt.file, ".ipt") {
			tool = []string{"iptables-nft-restore"}
		}
	}
	if tt.second {
		c.secondNIC(n)
	}
	before, err := n.Run(c.t.Context(), "nft", "list", "tables")
	must(c.t, err)
	if tt.before != "" {
		_, err := n.Run(c.t.Context(), "sh", "-ec", tt.before)
		must(c.t, err)
		c.onCleanup(func(ctx context.Context) error {
			_, err := n.Run(ctx, "sh", "-ec", tt.undo)
			return err
		})
		return
	}
	_, err = n.Input(c.t.Context(), text, tool[0], tool[1:]...)
	must(c.t, err)
	after, err := n.Run(c.t.Context(), "nft", "list", "tables")
	must(c.t, err)
	for table := range strings.Lines(after) {
		if table = strings.TrimSpace(table); !strings.Contains(before, table+"\n") {
			c.onCleanup(func(ctx context.Context) error {
				_, err := n.Run(ctx, "nft", "delete "+table)
				return err
			})
		}
	}
}

// expectPackets requests each VIP from outside the cluster, and expects the response of the
// service in a family, or none.
func (c *cluster) expectPackets(v4, v6 bool) {
	c.t.Helper()
	for _, family := range []struct {
		vip  netip.Addr
		want bool
	}{{c.API.V4, v4}, {c.API.V6, v6}} {
		err := c.request(family.vip)
		if family.want {
			err = eventually(c.t, func() error { return c.request(family.vip) })
		}
		if (err == nil) != family.want {
			c.t.Errorf("%v: %v, want a response: %v", family.vip, err, family.want)
		}
	}
}

// request requests a VIP from outside the cluster. An error means that the service did not
// answer.
func (c *cluster) request(vip netip.Addr) error {
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*lab.TestInterval)
	defer cancel()
	answer, err := c.Gateway.Raw(ctx, netip.AddrPortFrom(vip, 80).String(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if err == nil && !strings.Contains(answer, "Only /.well-known/acme-challenge/* is allowed") {
		err = errors.New(answer)
	}
	return err
}
