// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulator

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// serviceTable is the redirection under test, as the service creates it.
const serviceTable = `
table inet http01-proxyd {
	chain prerouting {
		type nat hook prerouting priority -110;
		ip daddr 192.0.2.5 tcp dport 80 fib daddr type local counter dnat to :8888
		ip6 daddr 2001:db8::5 tcp dport 80 fib daddr type local counter dnat to :8888
	}
	chain output {
		type nat hook output priority -110;
		ip daddr 192.0.2.5 tcp dport 80 fib daddr type local counter dnat to :8888
		ip6 daddr 2001:db8::5 tcp dport 80 fib daddr type local counter dnat to :8888
	}
	chain input {
		type filter hook input priority -1;
		ct direction original tcp dport 8888 ct status dnat accept
		ct direction original tcp dport 8888 counter reject with tcp reset
	}
}
`

// firewalld has the shape of firewalld's ruleset: policy by zones, dispatched by link,
// and a reject at the end.
const firewalld = `
table inet firewalld {
	chain filter_INPUT {
		type filter hook input priority 10; policy accept;
		ct state established,related accept
		ct status dnat accept
		iifname "lo" accept
		ct state invalid drop
		jump filter_INPUT_ZONES
		reject with icmpx admin-prohibited
	}
	chain filter_INPUT_ZONES {
		iifname "br-ex" goto filter_IN_public
		goto filter_IN_public
	}
	chain filter_IN_public {
		jump filter_IN_public_allow
		meta l4proto { icmp, ipv6-icmp } accept
	}
	chain filter_IN_public_allow {
		tcp dport 22 ct state new,untracked accept
	}
}
`

// commatrix has the shape of the rules of oc commatrix (openshift-kni/commatrix, pkg/types,
// ToNFTables): a list of ports, and drops in anonymous chains. The ports are an argument.
const commatrix = `
table inet openshift_filter {
    chain OPENSHIFT {
        type filter hook input priority 1; policy accept;
        iif lo accept
        ct state established,related accept
        ip protocol icmp accept
        ip6 nexthdr ipv6-icmp accept
        tcp dport { %s } accept
        udp dport { 53, 30000-32767 } accept
        ip daddr 255.255.255.255 jump { limit rate 1/minute log prefix "firewall "; drop; }
        jump { limit rate 1/minute log prefix "firewall "; drop; }
    }
}
`

func otherTable(text string) string { return "table inet other {\n" + text + "\n}\n" }

func inputAccept(rules string) string {
	return otherTable("chain input {\n type filter hook input priority 0; policy accept;\n" + rules + "\n}")
}

func inputDrop(rules string) string {
	return otherTable("chain input {\n type filter hook input priority 0; policy drop;\n" + rules + "\n}")
}

// rulesets maps rulesets to the expected obstacles, one a line: certainty, client,
// kind, port and place. Each is also tried with a local connection.
var rulesets = map[string]struct {
	text string
	want []string
}{
	"nothing":                             {"", nil},
	"firewalld":                           {firewalld, nil},
	"oc commatrix without the port":       {fmt.Sprintf(commatrix, "22, 80, 443, 30000-32767"), []string{"certain outside dropped 8888 inet openshift_filter OPENSHIFT rule 8"}},
	"oc commatrix with the port":          {fmt.Sprintf(commatrix, "22, 8888, 30000-32767"), nil},
	"an anonymous chain of a jump":        {otherTable("chain a { tcp dport 80 accept; tcp dport 8888 jump { counter; drop; }\n}\nchain input { type filter hook input priority 0; iif lo accept; jump a; }"), []string{"certain outside dropped 8888 inet other a rule 2"}},
	"an anonymous chain that returns":     {inputAccept("ct state established accept\njump { tcp dport 80 drop; return; drop; }\ntcp dport 8888 accept\ngoto { drop; }"), nil},
	"notrack in an anonymous chain":       {otherTable("chain pre { type filter hook prerouting priority raw; jump { tcp dport 80 notrack; }\n}"), []string{"certain outside untracked 80 inet other pre rule 1"}},
	"a firewall without the port":         {inputDrop("ct state established,related accept\niif lo accept\ntcp dport { 22, 80, 443, 6443 } accept"), []string{"certain outside dropped 8888 inet other input policy"}},
	"one that opens the port":             {inputDrop("ct state established,related accept\ntcp dport { 22, 80, 8000-9000 } accept"), nil},
	"one that drops local clients":        {inputDrop("tcp dport 22 accept"), []string{"certain outside dropped 8888 inet other input policy", "certain local dropped 8888 inet other input policy"}},
	"a rule that rejects":                 {inputAccept("tcp dport 22 accept\ntcp dport 8888 reject"), []string{"certain outside dropped 8888 inet other input rule 2", "certain local dropped 8888 inet other input rule 2"}},
	"a rule that drops many ports":        {inputAccept("tcp dport != { 22, 80, 443 } drop"), []string{"certain outside dropped 8888 inet other input rule 1", "certain local dropped 8888 inet other input rule 1"}},
	"ranges":                              {inputAccept("tcp dport 8880-8890 drop"), []string{"certain outside dropped 8888 inet other input rule 1", "certain local dropped 8888 inet other input rule 1"}},
	"ranges without the port":             {inputAccept("ct state established accept\ntcp dport 8889-9000 drop\ntcp dport 1-8887 drop\ntcp dport > 8888 drop\ntcp dport < 8888 drop"), nil},
	"comparisons":                         {inputAccept("tcp dport >= 8888 drop"), []string{"certain outside dropped 8888 inet other input rule 1", "certain local dropped 8888 inet other input rule 1"}},
	"udp alone":                           {inputAccept("udp dport 8888 drop\nmeta l4proto != tcp drop\nip protocol udp drop"), nil},
	"another address":                     {inputAccept("ip daddr 192.0.2.6 tcp dport 8888 drop\nip daddr != 192.0.2.0/24 drop"), nil},
	"the VIP's network":                   {inputAccept("ip daddr 192.0.2.0/24 tcp dport 8888 drop"), []string{"certain outside dropped 8888 inet other input rule 1", "certain local dropped 8888 inet other input rule 1"}},
	"new connections":                     {inputAccept("tcp dport 8888 ct state new drop"), []string{"certain outside dropped 8888 inet other input rule 1", "certain local dropped 8888 inet other input rule 1"}},
	"packets of other states":             {inputAccept("ct state invalid drop\ntcp flags & (fin|syn|rst|ack) != syn ct state new drop\nip frag-off & 0x1fff != 0 drop"), nil},
	"direct connections alone":            {inputAccept("tcp dport 8888 ct status & dnat == 0 drop"), nil},
	"by another link":                     {inputAccept("iifname \"eth0\" tcp dport 8888 drop"), nil},
	"by the VIP's link":                   {inputAccept("iifname \"br-ex\" tcp dport 8888 drop"), []string{"certain outside dropped 8888 inet other input rule 1"}},
	"all but lo":                          {inputAccept("iif != lo tcp dport 8888 drop"), []string{"certain outside dropped 8888 inet other input rule 1"}},
	"some clients alone":                  {inputDrop("ip saddr 10.0.0.0/8 accept\niif lo accept"), []string{"possible(client) outside dropped 8888 inet other input policy"}},
	"some clients dropped":                {inputAccept("ip saddr { 203.0.113.0/24 } drop"), []string{"possible(client) outside dropped 8888 inet other input rule 1"}},
	"a rate":                              {inputDrop("iif lo accept\ntcp dport 8888 limit rate 10/second accept"), []string{"possible(opaque) outside dropped 8888 inet other input policy"}},
	"a rate for some":                     {inputDrop("iif lo accept\nip saddr 10.0.0.0/8 tcp dport 8888 limit rate 10/second accept"), []string{"possible(client+opaque) outside dropped 8888 inet other input policy"}},
	"a mark":                              {inputAccept("meta mark 0x1 drop"), []string{"possible(opaque) outside dropped 8888 inet other input rule 1", "possible(opaque) local dropped 8888 inet other input rule 1"}},
	"jumps":                               {otherTable("chain a { tcp dport 80 accept; jump b; }\nchain b { tcp dport 22 return; tcp dport 8888 goto c; tcp dport 8888 drop; }\nchain c { ip daddr 192.0.2.5 drop; }\nchain input { type filter hook input priority 0; tcp dport 8888 jump a; }"), []string{"certain outside dropped 8888 inet other c rule 1", "certain local dropped 8888 inet other c rule 1"}},
	"a jump that comes back":              {otherTable("chain a { tcp dport 80 drop; return; drop; }\nchain input { type filter hook input priority 0; policy drop; ct state established accept; jump a; tcp dport 8888 accept; }"), nil},
	"a goto that does not come back":      {otherTable("chain a { tcp dport 80 drop; }\nchain input { type filter hook input priority 0; policy drop; goto a; tcp dport 8888 accept; }"), []string{"certain outside dropped 8888 inet other input policy", "certain local dropped 8888 inet other input policy"}},
	"a jump for some clients":             {otherTable("chain a { accept; }\nchain input { type filter hook input priority 0; policy drop; iif lo accept; ip saddr 10.0.0.0/8 jump a; }"), []string{"possible(client) outside dropped 8888 inet other input policy"}},
	"a return for some clients":           {otherTable("chain a { ip saddr 10.0.0.0/8 return; tcp dport 8888 drop; }\nchain input { type filter hook input priority 0; iif lo accept; jump a; }"), []string{"possible(client) outside dropped 8888 inet other a rule 2"}},
	"a goto for some clients":             {otherTable("chain a { counter; }\nchain input { type filter hook input priority 0; iif lo accept; ip saddr 10.0.0.0/8 goto a; tcp dport 8888 drop; }"), []string{"possible(client) outside dropped 8888 inet other input rule 3"}},
	"two paths with the same verdict":     {otherTable("chain a { drop; }\nchain input { type filter hook input priority 0; policy drop; iif lo accept; ip saddr 10.0.0.0/8 jump a; }"), []string{"certain outside dropped 8888 inet other a rule 1"}},
	"a verdict map":                       {inputAccept("tcp dport vmap { 22 : accept, 8888 : drop }"), []string{"certain outside dropped 8888 inet other input rule 1", "certain local dropped 8888 inet other input rule 1"}},
	"a verdict map that jumps":            {otherTable("chain a { accept; }\nchain input { type filter hook input priority 0; policy drop; ct state established accept; tcp dport vmap { 22 : drop, 8000-9000 : jump a }; }"), nil},
	"a verdict map by client":             {inputAccept("iif lo accept\nip saddr vmap { 10.0.0.0/8 : accept, 203.0.113.0/24 : drop }"), []string{"possible(client) outside dropped 8888 inet other input rule 2"}},
	"a verdict map with a catch-all":      {inputAccept("tcp dport vmap { 22 : accept, * : drop }"), []string{"certain outside dropped 8888 inet other input rule 1", "certain local dropped 8888 inet other input rule 1"}},
	"a concatenation":                     {inputAccept("ip daddr . tcp dport { 192.0.2.5 . 8888 } drop"), []string{"certain outside dropped 8888 inet other input rule 1", "certain local dropped 8888 inet other input rule 1"}},
	"a concatenation of ranges":           {inputAccept("ip daddr . tcp dport { 192.0.2.0/24 . 8000-9000 } drop"), []string{"certain outside dropped 8888 inet other input rule 1", "certain local dropped 8888 inet other input rule 1"}},
	"a concatenation without the port":    {inputAccept("ip daddr . tcp dport { 192.0.2.0/24 . 8000-8887, 192.0.3.0/24 . 8888 } drop"), nil},
	"a concatenation with the client":     {inputAccept("ip saddr . tcp dport { 10.0.0.1 . 8888 } drop"), []string{"possible(client) outside dropped 8888 inet other input rule 1"}},
	"named sets":                          {otherTable("set ports { type inet_service; flags interval; elements = { 22, 8880-8890 } }\nset seen { type ipv4_addr; flags dynamic,timeout; timeout 1m; }\nchain input { type filter hook input priority 0; add @seen { ip saddr } tcp dport @ports drop; }"), []string{"certain outside dropped 8888 inet other input rule 1", "certain local dropped 8888 inet other input rule 1"}},
	"the last interval":                   {otherTable("set ports { type inet_service; flags interval; elements = { 8000-65535 } }\nchain input { type filter hook input priority 0; tcp dport @ports drop; }"), []string{"certain outside dropped 8888 inet other input rule 1", "certain local dropped 8888 inet other input rule 1"}},
	"an output firewall":                  {otherTable("chain output { type filter hook output priority 0; policy drop; oif lo tcp dport 80 accept; }"), []string{"certain local dropped 8888 inet other output policy"}},
	"an output firewall that opens":       {otherTable("chain output { type filter hook output priority 0; policy drop; ct direction original oifname \"lo\" accept; ct state established accept; }"), nil},
	"before the redirection":              {otherTable("chain pre { type filter hook prerouting priority raw; tcp dport 80 drop; }"), []string{"certain outside dropped 80 inet other pre rule 1"}},
	"notrack":                             {otherTable("chain pre { type filter hook prerouting priority raw; tcp dport 80 notrack; }\nchain out { type filter hook output priority raw; ip daddr 192.0.2.5 tcp dport 80 notrack; }"), []string{"certain outside untracked 80 inet other pre rule 1", "certain local untracked 80 inet other out rule 1"}},
	"notrack for some clients":            {otherTable("chain pre { type filter hook prerouting priority raw; ip saddr 10.0.0.0/8 notrack; }"), []string{"possible(client) outside untracked 80 inet other pre rule 1"}},
	"notrack and drop":                    {otherTable("chain pre { type filter hook prerouting priority raw; tcp dport 80 notrack; tcp dport 80 drop; }"), []string{"certain outside dropped 80 inet other pre rule 2"}},
	"notrack for other ports":             {otherTable("chain pre { type filter hook prerouting priority raw; udp dport 53 notrack; tcp dport 443 notrack; }\nchain out { type filter hook output priority raw; tcp sport 80 oif != lo notrack; }"), nil},
	"notrack after conntrack":             {otherTable("chain pre { type filter hook prerouting priority mangle; tcp dport 80 notrack; }\nchain out { type filter hook output priority mangle; tcp dport 80 notrack; }"), nil},
	"a drop in an earlier nat chain":      {otherTable("chain pre { type nat hook prerouting priority -150; tcp dport 80 drop; }\nchain out { type nat hook output priority -150; tcp dport 80 drop; }"), []string{"certain outside dropped 80 inet other pre rule 1", "certain local dropped 80 inet other out rule 1"}},
	"a drop in a later nat chain":         {otherTable("chain pre { type nat hook prerouting priority dstnat; tcp dport 80 drop; }\nchain out { type nat hook output priority -100; drop; }"), nil},
	"a drop in a nat chain of the input":  {otherTable("chain in { type nat hook input priority 100; tcp dport 8888 drop; }"), []string{"certain outside dropped 8888 inet other in rule 1"}},
	"a nat chain that drops or redirects": {otherTable("chain pre { type nat hook prerouting priority -150; ip saddr 10.0.0.0/8 drop; tcp dport 80 redirect to :1; }"), []string{"certain outside dropped 80 inet other pre rule 1"}},
	"a later nat chain":                   {otherTable("chain pre { type nat hook prerouting priority dstnat; tcp dport 80 dnat ip to 192.0.2.6:80; }\nchain out { type nat hook output priority -100; tcp dport 80 redirect to :9445; }"), nil},
	"an earlier nat chain":                {otherTable("chain pre { type nat hook prerouting priority -150; tcp dport 80 dnat ip to 192.0.2.6:80; }\nchain out { type nat hook output priority -150; ip daddr 192.0.2.5 tcp dport 80 redirect to :9445; }"), []string{"certain outside translated 80 inet other pre rule 1", "certain local translated 80 inet other out rule 1"}},
	"a Service by externalIP":             {otherTable("map services { type ipv4_addr . inet_service : verdict; elements = { 192.0.2.5 . 80 : goto service-x } }\nchain service-x { meta l4proto tcp dnat ip to 10.128.0.9:8080; }\nchain pre { type nat hook prerouting priority -120; ip daddr . tcp dport vmap @services; }"), []string{"certain outside translated 80 inet other service-x rule 1"}},
	"an earlier nat chain for others":     {otherTable("chain pre { type nat hook prerouting priority -150; tcp dport 443 redirect to :9445; ip daddr 192.0.2.9 meta l4proto tcp redirect to :1; accept; }"), nil},
	"a nat chain for some clients":        {otherTable("chain pre { type nat hook prerouting priority -150; ip saddr 10.0.0.0/8 tcp dport 80 redirect to :9445; }"), []string{"possible(client) outside translated 80 inet other pre rule 1"}},
	"a dormant table":                     {"table inet other {\nflags dormant\nchain input { type filter hook input priority 0; policy drop; }\n}\n", nil},
	"another family":                      {"table ip6 other {\nchain input { type filter hook input priority 0; policy drop; }\n}\n", nil},
	"the VIP's family":                    {"table ip other {\nchain input { type filter hook input priority 0; policy drop; iif lo accept; }\n}\n", []string{"certain outside dropped 8888 ip other input policy"}},
	"source addresses":                    {inputAccept("fib saddr type local accept\nfib daddr type != local drop\nfib daddr . iif type != local drop\nip saddr 192.0.2.5 accept"), nil},
}

func describe(f Obstacle, certainty string) string {
	who := map[bool]string{true: "local", false: "outside"}[f.Local]
	what := map[Kind]string{Dropped: "dropped", Translated: "translated", Untracked: "untracked"}[f.Kind]
	where := "policy"
	if f.Handle != 0 {
		where = fmt.Sprintf("rule %d", f.Handle)
	}
	return fmt.Sprintf("%s %s %s %d %s %s", certainty, who, what, f.Port, f.Chain(), where)
}

func uncertaintyNames(w Uncertainty) string {
	var names []string
	if w&DependsOnClient != 0 {
		names = append(names, "client")
	}
	if w&NotSimulated != 0 {
		names = append(names, "opaque")
	}
	return strings.Join(names, "+")
}

// simulateRuleset returns the obstacles, with rule positions in their chain instead of
// handles.
func simulateRuleset(t *testing.T, d Redirect) []string {
	t.Helper()
	k, err := OpenKernelRuleset(time.Now().Add(5 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	sure, maybe, err := d.Simulate(k)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	add := func(f Obstacle, certainty string) {
		if f.Handle != 0 {
			rules, err := k.chainRules(f.BaseChain.Table, f.ChainName)
			if err != nil {
				t.Fatal(err)
			}
			f.Handle = uint64(slices.IndexFunc(rules, func(r Rule) bool { return r.Handle == f.Handle })) + 1
		}
		got = append(got, describe(f, certainty))
	}
	for _, f := range sure {
		add(f, "certain")
	}
	for _, f := range maybe {
		add(f, "possible("+uncertaintyNames(f.Uncertainty)+")")
	}
	return got
}

// TestRulesets loads each ruleset with the real nft, and connects as a local client.
func TestRulesets(t *testing.T) {
	nstest.Require(t)
	for _, vip := range []string{"192.0.2.5/32", "2001:db8::5/128"} {
		nstest.Run(t, "ip", "address", "add", vip, "dev", "lo")
	}
	listener, err := net.Listen("tcp", "192.0.2.5:8888")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go acceptConnections(listener)
	for name, tt := range rulesets {
		t.Run(name, func(t *testing.T) {
			nstest.RunWithInput(t, "flush ruleset\n"+serviceTable+tt.text, "nft", "-f", "-")
			d := Redirect{
				VIP: netip.MustParseAddr("192.0.2.5"), Port: 80, TargetPort: 8888, Priority: -110,
				OwnTable: Table{INet, "http01-proxyd"}, Link: Link{7, "br-ex"},
			}
			got := simulateRuleset(t, d)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "possible") && strings.Contains(s, " local ") }) {
				return
			}
			lost := slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "certain local ") })
			const address = "192.0.2.5:80"
			if lost && connects(address) {
				t.Error("a local client connects, but its packets must be dropped")
			}
			if !lost && !answers(address) {
				t.Error("a local client gets no response")
			}
		})
	}
}

func acceptConnections(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = c.Write([]byte("ours"))
		_ = c.Close()
	}
}

const (
	// answerTimeout bounds the wait for a response that must arrive.
	answerTimeout = 30 * time.Second
	// rejectionTimeout bounds the wait for a connection that must fail. The kernel
	// delivers local packets synchronously, so a connection would be established at
	// once.
	rejectionTimeout = 50 * time.Millisecond
)

// connects reports whether a connection to the address is established at once.
func connects(address string) bool {
	c, err := net.DialTimeout("tcp", address, rejectionTimeout)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// answers reports whether the listener responds on a connection to the address.
func answers(address string) bool {
	c, err := net.DialTimeout("tcp", address, answerTimeout)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(answerTimeout))
	b := make([]byte, 4)
	_, err = io.ReadFull(c, b)
	return err == nil && string(b) == "ours"
}

// TestIPv6 covers rules of both families and of IPv6 only.
func TestIPv6(t *testing.T) {
	nstest.Require(t)
	for text, want := range map[string][]string{
		inputAccept("ip6 daddr 2001:db8::/32 tcp dport 8888 drop"):                                                             {"certain outside dropped 8888 inet other input rule 1", "certain local dropped 8888 inet other input rule 1"},
		inputAccept("ip daddr 0.0.0.0/0 drop"):                                                                                 nil,
		inputAccept("meta nfproto ipv4 drop\nmeta protocol ip drop\nip6 nexthdr udp drop"):                                     nil,
		"table ip other {\nchain input { type filter hook input priority 0; policy drop; }\n}\n":                               nil,
		"table ip6 other {\nchain input { type filter hook input priority 0; policy drop; }\n}\n":                              {"certain outside dropped 8888 ip6 other input policy", "certain local dropped 8888 ip6 other input policy"},
		inputAccept("ip6 saddr fd00::/8 drop"):                                                                                 {"possible(client) outside dropped 8888 inet other input rule 1"},
		inputAccept("ip6 daddr . tcp dport { 2001:db8::-2001:db8::ffff . 8000-9000 } drop"):                                    {"certain outside dropped 8888 inet other input rule 1", "certain local dropped 8888 inet other input rule 1"},
		otherTable("chain pre { type nat hook prerouting priority -150; ip6 daddr 2001:db8::5 tcp dport 80 redirect to :1; }"): {"certain outside translated 80 inet other pre rule 1"},
	} {
		nstest.RunWithInput(t, "flush ruleset\n"+serviceTable+text, "nft", "-f", "-")
		got := simulateRuleset(t, Redirect{VIP: netip.MustParseAddr("2001:db8::5"), Port: 80, TargetPort: 8888, Priority: -110, OwnTable: Table{INet, "http01-proxyd"}})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// TestDirect covers a port that the service does not redirect.
func TestDirect(t *testing.T) {
	nstest.Require(t)
	own := Table{INet, "http01-proxyd"}
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"nothing":               {"", nil},
		"a firewall without it": {fmt.Sprintf(commatrix, "22, 8888"), []string{"certain outside dropped 9645 inet openshift_filter OPENSHIFT rule 8"}},
		"a firewall with it":    {fmt.Sprintf(commatrix, "22, 9645"), nil},
		"only redirected ports": {firewalld, []string{"certain outside dropped 9645 inet firewalld filter_INPUT rule 6"}},
		"a nat chain":           {otherTable("chain pre { type nat hook prerouting priority dstnat; tcp dport 9645 redirect to :1; }"), []string{"certain outside translated 9645 inet other pre rule 1"}},
		"other addresses":       {inputAccept("ip daddr 192.0.2.5 tcp dport 9645 reject with tcp reset"), nil},
	} {
		nstest.RunWithInput(t, "flush ruleset\n"+serviceTable+tt.text, "nft", "-f", "-")
		got := simulateRuleset(t, Direct(netip.MustParseAddrPort("192.0.2.11:9645"), own, Link{7, "br-ex"}))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestXtables covers the expressions of iptables-nft, of which only some are simulated.
func TestXtables(t *testing.T) {
	nstest.Require(t)
	if _, err := os.Stat("/usr/sbin/iptables-nft"); err != nil {
		t.Fatal("iptables-nft is missing: run test/install-packages all")
	}
	d := Redirect{VIP: netip.MustParseAddr("192.0.2.5"), Port: 80, TargetPort: 8888, Priority: -110, OwnTable: Table{INet, "http01-proxyd"}}
	for rule, want := range map[string][]string{
		"-A INPUT -p tcp --dport 8888 -m comment --comment x -j DROP":                       {"certain outside dropped 8888 ip filter INPUT rule 1", "certain local dropped 8888 ip filter INPUT rule 1"},
		"-A INPUT -p tcp --dport 8888 -m statistic --mode nth --every 3 --packet 0 -j DROP": {"possible(opaque) outside dropped 8888 ip filter INPUT rule 1", "possible(opaque) local dropped 8888 ip filter INPUT rule 1"},
		"-A INPUT -p tcp --dport 8888 -j REJECT":                                            {"certain outside dropped 8888 ip filter INPUT rule 1", "certain local dropped 8888 ip filter INPUT rule 1"},
		"-t raw -A PREROUTING -p tcp --dport 80 -j CT --notrack":                            {"certain outside untracked 80 ip raw PREROUTING rule 1"},
		"-t raw -A PREROUTING -p tcp --dport 80 -j CT --zone 7":                             nil,
		"-A INPUT -p tcp --dport 8888 -j LOG":                                               nil,
	} {
		nstest.RunWithInput(t, "flush ruleset\n"+serviceTable, "nft", "-f", "-")
		nstest.Run(t, "iptables-nft", strings.Fields(rule)...)
		if diff := cmp.Diff(want, simulateRuleset(t, d)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", rule, diff)
		}
	}
}
