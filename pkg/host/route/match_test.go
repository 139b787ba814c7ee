// SPDX-License-Identifier: Apache-2.0

package route_test

import (
	"context"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/route"
)

// TestMatch compares the longest matching prefix with `ip route get fibmatch`.
func TestMatch(t *testing.T) {
	nstest.Require(t)
	if _, _, found, err := route.Match(netip.MustParseAddr("198.51.100.7")); found || err != nil {
		t.Errorf("without a route: %v, %v", found, err)
	}
	if _, _, found, err := route.Match(netip.MustParseAddr("2001:db8:7::7")); found || err != nil {
		t.Errorf("without a route, IPv6: %v, %v", found, err)
	}
	// Some hosts have these routes, so that packets without another route are rejected at
	// once.
	for _, family := range []string{"-4", "-6"} {
		nstest.Run(t, "ip", family, "route", "add", "unreachable", "default", "metric", "4294967295")
	}
	for _, addr := range []string{"198.51.100.7", "2001:db8:7::7"} {
		if _, _, found, err := route.Match(netip.MustParseAddr(addr)); found || err != nil {
			t.Errorf("%s by an unreachable default route: %v, %v", addr, found, err)
		}
	}
	for _, family := range []string{"-4", "-6"} {
		nstest.Run(t, "ip", family, "route", "del", "unreachable", "default", "metric", "4294967295")
	}
	nstest.Run(t, "ip", "link", "add", "wan0", "type", "veth", "peer", "name", "wan1")
	t.Cleanup(func() {
		// The other routes are removed with the link. The test's context has ended.
		for _, args := range []string{
			"link del wan0", "route del unreachable 10.46.0.0/16",
			"route del blackhole 10.48.0.0/16", "route del prohibit 10.49.0.0/16", "-6 route del blackhole fd03::/64",
			"-6 route del unreachable fd04::/64",
		} {
			if out, err := exec.CommandContext(context.Background(), "ip",
				strings.Fields(args)...).CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", args, err, out)
			}
		}
	})
	nstest.Run(t, "ip", "link", "set", "wan1", "up")
	nstest.Run(t, "ip", "link", "set", "wan0", "up")
	nstest.AddAddress(t, "wan0", "203.0.113.11/24")
	nstest.AddAddress(t, "wan0", "2001:db8:a::11/64")
	for _, args := range [][]string{
		{"route", "add", "default", "via", "203.0.113.1"},
		{"route", "add", "10.44.0.0/15", "via", "203.0.113.1"},
		{"route", "add", "0.0.0.0/1", "via", "203.0.113.1"},
		{"route", "add", "unreachable", "10.46.0.0/16"},
		{"route", "add", "blackhole", "10.48.0.0/16"},
		{"route", "add", "prohibit", "10.49.0.0/16"},
		{"-6", "route", "add", "default", "via", "2001:db8:a::1"},
		{"-6", "route", "add", "fd02::/64", "via", "2001:db8:a::1"},
		{"-6", "route", "add", "blackhole", "fd03::/64"},
		{"-6", "route", "add", "unreachable", "fd04::/64"},
	} {
		nstest.Run(t, "ip", args...)
	}
	wan, err := net.InterfaceByName("wan0")
	if err != nil {
		t.Fatal(err)
	}
	index := uint32(wan.Index)
	for addr, want := range map[string]struct {
		network string
		link    uint32
	}{
		"10.44.0.0":      {network: "10.44.0.0/15", link: index},
		"10.45.255.255":  {network: "10.44.0.0/15", link: index},
		"10.47.0.0":      {network: "0.0.0.0/1", link: index},
		"198.51.100.7":   {network: "0.0.0.0/0", link: index},
		"203.0.113.7":    {network: "203.0.113.0/24", link: index},
		"203.0.113.11":   {network: "203.0.113.11/32", link: index},
		"10.46.0.0":      {},
		"fd04::1":        {},
		"10.48.0.0":      {},
		"10.49.0.0":      {},
		"fd02::1:0":      {network: "fd02::/64", link: index},
		"2001:db8:b::1":  {network: "::/0", link: index},
		"2001:db8:a::11": {network: "2001:db8:a::11/128", link: index},
		"fd03::1":        {},
	} {
		network, link, found, err := route.Match(netip.MustParseAddr(addr))
		if want.network == "" {
			if found || err != nil {
				t.Errorf("%s: %v by %d, %v, %v", addr, network, link, found, err)
			}
			continue
		}
		if err != nil || !found || network.String() != want.network || link != want.link {
			t.Errorf("%s: %v by %d, %v, %v; want %+v", addr, network, link, found, err, want)
		}
	}
}
