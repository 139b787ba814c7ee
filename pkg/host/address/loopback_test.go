// SPDX-License-Identifier: Apache-2.0

//go:build linux

package address

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
)

// findOnLoopback returns an address on lo.
func findOnLoopback(t *testing.T, addr netip.Addr) (found Address, there bool) {
	t.Helper()
	all, err := List()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if a.IP == addr && a.Link == Loopback {
			return a, true
		}
	}
	return Address{}, false
}

// TestLoopback adds single addresses to lo and removes them, with ip(8) as the oracle.
func TestLoopback(t *testing.T) {
	nstest.Require(t)
	for text, shown := range map[string]string{
		"10.44.0.0": "inet 10.44.0.0/32 metric 4711 scope global lo\\       valid_lft forever preferred_lft forever",
		"fd02::1:0": "inet6 fd02::1:0/128 metric 4711 scope global \\       valid_lft forever preferred_lft forever",
	} {
		addr := netip.MustParseAddr(text)
		shows := func(when, want string) {
			t.Helper()
			// A new IPv6 address is tentative for a moment, even on lo.
			if got := strings.Replace(ip(t, "-o", "address", "show", "dev", "lo", "to", text), "tentative ", "",
				1); want == "" && got != "" || !strings.Contains(got, want) {
				t.Errorf("%s, %s: ip shows %q, want %q", text, when, got, want)
			}
		}
		if added, err := AddToLoopback(addr, 4711); err != nil || !added {
			t.Errorf("%s: %v, %v", text, added, err)
		}
		shows("put there", shown)
		a, there := findOnLoopback(t, addr)
		if a.Tentative = false; !there || a != (Address{IP: addr, Bits: addr.BitLen(), Link: Loopback, Metric: 4711}) {
			t.Errorf("%+v, %v", a, there)
		}
		if added, err := AddToLoopback(addr, 1); err != nil || added {
			t.Errorf("%s, a second time: %v, %v", text, added, err)
		}
		shows("a second time", shown)
		for range 2 { // an address that does not exist is no error
			if err := RemoveFromLoopback(addr); err != nil {
				t.Errorf("%s: %v", text, err)
			}
			shows("taken away", "")
		}
		// An address of another link or prefix length is not removed.
		link(t, "other0", "type", "veth", "peer", "name", "other1")
		ip(t, "address", "add", text, "dev", "other0")
		length := map[bool]string{true: "/24", false: "/64"}[addr.Is4()]
		ip(t, "address", "add", text+length, "dev", "lo")
		if err := RemoveFromLoopback(addr); err != nil {
			t.Errorf("%s of another length: %v", text, err)
		}
		ip(t, "address", "del", text+length, "dev", "lo")
		if got := ip(t, "-o", "address", "show", "dev", "other0", "to", text); got == "" {
			t.Errorf("%s is removed from another link", text)
		}
		ip(t, "link", "del", "other0")
	}
}

func TestAddToLoopbackRefused(t *testing.T) {
	nstest.Require(t)
	if added, err := AddToLoopback(netip.MustParseAddr("ff02::1"), 1); added || err == nil ||
		!strings.HasPrefix(err.Error(), "cannot add ff02::1 to lo: ") {
		t.Errorf("a multicast address: %v, %v", added, err)
	}
}

func TestLinks(t *testing.T) {
	nstest.Require(t)
	link(t, "bridge0", "type", "bridge")
	link(t, "veth0", "type", "veth", "peer", "name", "veth1")
	ip(t, "link", "set", "veth0", "master", "bridge0")
	links, err := Links()
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]Link)
	for _, l := range links {
		found[l.Name] = l
	}
	if lo := found["lo"]; lo != (Link{Index: Loopback, Name: "lo", Up: true}) {
		t.Errorf("lo: %+v", lo)
	}
	if in := found["veth0"]; in.Master == 0 || in.Master != found["bridge0"].Index || !in.Up {
		t.Errorf("veth0: %+v of %+v", in, links)
	}
	if down := found["veth1"]; down.Index == 0 || down.Up || down.Master != 0 {
		t.Errorf("veth1: %+v", down)
	}
}
