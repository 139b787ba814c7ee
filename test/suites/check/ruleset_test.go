// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"strings"
	"testing"
)

// TestRuleset loads rulesets of administrators and of Kubernetes Services.
func TestRuleset(t *testing.T) {
	c := healthy(t, nil)
	api, worker := c.API.V4, c.Ingress.V4
	for _, tt := range []struct {
		name, text string
		ids        []string
		texts      []string
	}{
		{
			"a redirect that comes first",
			fmt.Sprintf("table ip admin_nat {\nchain pre { type nat hook prerouting priority -150; ip daddr %s tcp dport 80 dnat to %s:80; }\n}\n", api, worker),
			[]string{"earlier-nat"},
			[]string{"chain ip admin_nat pre", fmt.Sprintf("ip daddr %s tcp dport 80 dnat to %s:80", api, worker), "port 80 of " + api.String()},
		},
		{
			"a Service with the VIP among its externalIPs",
			fmt.Sprintf("table ip kube-proxy {\nmap service-ips { type ipv4_addr . inet_service : verdict; elements = { %s . 80 : goto external-web } }\n"+
				"chain external-web { meta l4proto tcp dnat to 10.128.0.2:8080; }\nchain nat-prerouting { type nat hook prerouting priority -120; ip daddr . tcp dport vmap @service-ips; }\n}\n", api),
			[]string{"earlier-nat"},
			[]string{"chain ip kube-proxy external-web", "dnat to 10.128.0.2:8080", "externalIPs"},
		},
		{
			"a redirect for some clients",
			"table ip admin_nat {\nchain pre { type nat hook prerouting priority -150; ip saddr 10.0.0.0/8 tcp dport 80 redirect to :9445; }\n}\n",
			[]string{"earlier-nat-for-some"},
			[]string{"chain ip admin_nat pre", "ip saddr 10.0.0.0/8"},
		},
		{
			"a firewall with a list of ports",
			"table inet admin_filter {\nchain input { type filter hook input priority 5; policy drop; ct state established,related accept; iif lo accept; " +
				"meta l4proto { icmp, ipv6-icmp, vrrp } accept; ip protocol 112 accept; tcp dport { 22, 80, 443, 6443 } accept; }\n}\n",
			[]string{"input-drops"},
			[]string{"chain inet admin_filter input: its policy is drop", "Accept port 8888", c.API.V6.String()},
		},
		{
			"a rule that rejects the port",
			"table inet admin_filter {\nchain input { type filter hook input priority 5; jump ports; }\nchain ports { iifname \"br-ex\" tcp dport 8000-9000 counter reject; }\n}\n",
			[]string{"input-drops"},
			[]string{"chain inet admin_filter ports", `iifname "br-ex" tcp dport 8000-9000 counter`, "(handle "},
		},
		{
			"a firewall for known clients",
			"table inet admin_filter {\nchain input { type filter hook input priority 5; policy accept; iif lo accept; ip saddr 10.0.0.0/8 accept; ip daddr " + api.String() + " tcp dport 8888 drop; }\n}\n",
			[]string{"input-drops-for-some"},
			[]string{"chain inet admin_filter input", "tcp dport 8888 drop"},
		},
		{
			"port 80 dropped in prerouting",
			"table inet admin_raw {\nchain pre { type filter hook prerouting priority raw; tcp dport 80 drop; }\n}\n",
			[]string{"vip-port-dropped"},
			[]string{"chain inet admin_raw pre", "tcp dport 80 drop"},
		},
		{
			"a drop in a nat chain",
			"table ip admin_nat {\nchain pre { type nat hook prerouting priority -150; tcp dport 80 drop; }\n}\n",
			[]string{"vip-port-dropped"},
			[]string{"chain ip admin_nat pre", "tcp dport 80 drop"},
		},
		{
			"port 80 without connection tracking",
			"table inet admin_raw {\nchain pre { type filter hook prerouting priority raw; tcp dport { 80, 443 } notrack; }\n}\n",
			[]string{"vip-port-untracked"},
			[]string{"chain inet admin_raw pre", "tcp dport { 80, 443 } notrack", "port 80 of " + api.String()},
		},
		{
			"port 80 without connection tracking for some clients",
			"table inet admin_raw {\nchain pre { type filter hook prerouting priority raw; ip saddr 10.0.0.0/8 tcp dport 80 notrack; }\n}\n",
			[]string{"vip-port-untracked-for-some"},
			[]string{"chain inet admin_raw pre", "ip saddr 10.0.0.0/8 tcp dport 80 notrack"},
		},
		{
			"an output firewall",
			"table inet admin_out {\nchain output { type filter hook output priority 0; tcp dport 8888 drop; }\n}\n",
			[]string{"local-traffic-blocked"},
			[]string{"chain inet admin_out output", "tcp dport 8888 drop"},
		},
		{
			"rules of firewalld",
			"table inet admin_filter {\nchain input { type filter hook input priority 10; ct state established,related accept; ct status dnat accept; iifname \"lo\" accept; " +
				"meta l4proto { icmp, ipv6-icmp, vrrp } accept; reject with icmpx admin-prohibited; }\n}\n",
			[]string{},
			nil,
		},
		{
			"a later redirect",
			fmt.Sprintf("table ip admin_nat {\nchain pre { type nat hook prerouting priority dstnat; ip daddr %s tcp dport 80 dnat to %s:80; }\n}\n", api, worker),
			[]string{},
			nil,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := c.forSubtest(t)
			table, _, _ := strings.Cut(strings.TrimPrefix(tt.text, "table "), " {")
			c.loadTable(c.holder(), table, tt.text)
			r := c.expectFindings(c.holder(), tt.ids)
			for _, id := range tt.ids {
				c.expectText(r, id, tt.texts...)
			}
		})
	}
}

// TestSkippedRules holds that check lists the rules that it cannot evaluate beside its
// findings.
func TestSkippedRules(t *testing.T) {
	c := healthy(t, nil)
	c.loadFaultRules(c.holder(), "chain marked { type filter hook input priority 4; meta mark 0x1 drop; }\n"+
		"chain input { type filter hook input priority 5; tcp dport 8888 drop; }")
	r := c.expectFindings(c.holder(), []string{"input-drops"})
	if got := r.Check("ruleset").NotChecked; !strings.Contains(got, " in chain inet fault marked") {
		t.Errorf("unchecked: %q", got)
	}
	text, _, err := c.holder().CheckText(t.Context(), shared.binary)
	must(t, err)
	if !strings.Contains(text, "\n- ruleset       not checked: rule ") {
		t.Errorf("output:\n%s", text)
	}
}
