// SPDX-License-Identifier: Apache-2.0

package route_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/route"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// TestGet covers nodes with single addresses, which learn their network from routes (RFC 4861
// section 6.3.4 with DHCPv6).
func TestGet(t *testing.T) {
	nstest.Require(t)
	nstest.Run(t, "ip", "link", "add", "lan0", "type", "veth", "peer", "name", "lan1")
	nstest.Run(t, "ip", "link", "set", "lan1", "up")
	nstest.Run(t, "ip", "link", "set", "lan0", "up")
	nstest.AddAddress(t, "lan0", "192.0.2.11/24")
	nstest.AddAddress(t, "lan0", "2001:db8::11/128")
	for _, args := range [][]string{
		{"-6", "route", "add", "2001:db8::/64", "dev", "lan0"},
		{"route", "add", "198.51.100.0/24", "via", "192.0.2.1"},
		{"-6", "route", "add", "2001:db8:f::/64", "via", "2001:db8::1"},
	} {
		nstest.Run(t, "ip", args...)
	}
	link, err := net.InterfaceByName("lan0")
	if err != nil {
		t.Fatal(err)
	}
	near4, near6 := netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("2001:db8::11")
	index := uint32(link.Index)
	for addr, want := range map[string]route.Route{
		"192.0.2.5":     {Link: index, Source: near4},
		"2001:db8::5":   {Link: index, Source: near6},
		"198.51.100.5":  {Link: index, Source: near4, Gateway: netip.MustParseAddr("192.0.2.1")},
		"2001:db8:f::5": {Link: index, Source: near6, Gateway: netip.MustParseAddr("2001:db8::1")},
		"192.0.2.11":    {Link: 1, Source: near4, Local: true},
		"2001:db8::11":  {Link: 1, Source: near6, Local: true},
	} {
		got, err := route.Get(netip.MustParseAddr(addr))
		if err != nil {
			t.Errorf("%s: %v", addr, err)
		} else if diff := cmp.Diff(want, got, cmp.Comparer(equalAddr)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", addr, diff)
		}
	}
	if got, err := route.Get(netip.MustParseAddr("203.0.113.5")); err == nil {
		t.Errorf("an address without a route: %+v", got)
	}
}

func equalAddr(a, b netip.Addr) bool { return a == b }

// TestInTable: a route counts only in its table and for exactly its address.
func TestInTable(t *testing.T) {
	nstest.Require(t)
	nstest.Run(t, "ip", "link", "add", "vip0", "type", "veth", "peer", "name", "vip1")
	nstest.Run(t, "ip", "link", "set", "vip0", "up")
	// As kube-vip adds them in routing table mode.
	for _, route := range []string{"192.0.2.5/32", "2001:db8::5/128", "198.51.100.0/24"} {
		nstest.Run(t, "ip", "route", "add", route, "dev", "vip0", "table", "198", "proto", "248")
	}
	nstest.Run(t, "ip", "route", "add", "192.0.2.6/32", "dev", "vip0")
	nstest.Run(t, "ip", "route", "add", "192.0.2.7/32", "dev", "vip0", "table", "1980")
	for _, tt := range []struct {
		table uint32
		addr  string
		want  bool
	}{
		{198, "192.0.2.5", true},
		{198, "2001:db8::5", true},
		{198, "198.51.100.1", false},
		{198, "192.0.2.6", false},
		{198, "192.0.2.7", false},
		{1980, "192.0.2.7", true},
		{1981, "192.0.2.7", false}, // no such table
		{1981, "2001:db8::5", false},
	} {
		if got, err := route.InTable(tt.table, netip.MustParseAddr(tt.addr)); got != tt.want || err != nil {
			t.Errorf("%s in table %d: %t, %v", tt.addr, tt.table, got, err)
		}
	}
	// The kernel returns no route of another table.
	for ipv6, want := range map[bool][]string{false: {"192.0.2.5/32", "198.51.100.0/24"}, true: {"2001:db8::5/128"}} {
		routes, err := route.TableRoutes(198, ipv6)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range routes {
			to, _ := netip.AddrFromSlice(m.Attributes.Dst)
			got = append(got, netip.PrefixFrom(to.Unmap(), int(m.DstLength)).String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("routes of the table, IPv6 %t (-want +got):\n%s", ipv6, diff)
		}
	}
}

// TestDefaultLinks: the default routes of the main table in the kernel's order, with half of one, as VPNs
// have, and with several next hops.
func TestDefaultLinks(t *testing.T) {
	nstest.Require(t)
	n := nstest.NewNetns(t)
	for _, link := range []string{"lan0", "lan1", "vpn0", "far0"} {
		n.Run(t, "ip", "link", "add", link, "type", "veth", "peer", "name", link+"peer")
		n.Run(t, "ip", "link", "set", link+"peer", "up")
		n.Run(t, "ip", "link", "set", link, "up")
	}
	n.Run(t, "ip", "address", "add", "192.0.2.11/24", "dev", "lan0")
	n.Run(t, "ip", "address", "add", "198.51.100.11/24", "dev", "lan1")
	n.Run(t, "ip", "address", "add", "2001:db8::11/64", "dev", "lan1", "nodad")
	for _, route := range []string{
		"default via 192.0.2.1 metric 200", "default nexthop via 198.51.100.1 nexthop via 192.0.2.1",
		"0.0.0.0/1 dev vpn0", "203.0.113.0/24 via 192.0.2.1", "default dev far0 table 198", "unreachable default metric 999",
	} {
		n.Run(t, append([]string{"ip", "route", "add"}, strings.Fields(route)...)...)
	}
	for _, route := range []string{"default via 2001:db8::1", "unreachable default metric 999"} {
		n.Run(t, append([]string{"ip", "-6", "route", "add"}, strings.Fields(route)...)...)
	}
	var names [2][]string
	n.In(func() {
		v4, v6, err := route.DefaultLinks()
		if err != nil {
			t.Error(err)
		}
		for i, list := range [][]uint32{v4, v6} {
			for _, index := range list {
				if link, err := net.InterfaceByIndex(int(index)); err == nil {
					names[i] = append(names[i], link.Name)
				}
			}
		}
	})
	if diff := cmp.Diff([2][]string{{"vpn0", "lan1", "lan0"}, {"lan1"}}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
