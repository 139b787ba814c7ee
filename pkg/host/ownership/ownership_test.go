// SPDX-License-Identifier: Apache-2.0

package ownership_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/ownership"
)

func addrs(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, s := range texts {
		list = append(list, netip.MustParseAddr(s))
	}
	return list
}

func hostAddresses(texts ...string) []ownership.Address {
	var list []ownership.Address
	for _, a := range addrs(texts...) {
		list = append(list, ownership.Address{IP: a})
	}
	return list
}

func TestDecide(t *testing.T) {
	t.Parallel()
	vip4, vip6 := netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("2001:db8::5")
	tests := []struct {
		name         string
		api, ingress []netip.Addr
		held         []ownership.Address
		want         ownership.Decision
	}{
		{name: "nothing at all"},
		{
			name: "held",
			api:  addrs("192.0.2.5"), ingress: addrs("192.0.2.6"),
			held: hostAddresses("127.0.0.1", "192.0.2.5", "fe80::1"),
			want: ownership.Decision{Held: addrs("192.0.2.5")},
		},
		{
			name: "standby",
			api:  addrs("192.0.2.5"), ingress: addrs("192.0.2.6"),
			held: hostAddresses("192.0.2.1", "192.0.2.6"),
			want: ownership.Decision{Standby: addrs("192.0.2.5")},
		},
		{
			name: "one family moved before the other",
			api:  addrs("2001:db8::5", "192.0.2.5"), ingress: addrs("192.0.2.6", "2001:db8::6"),
			held: hostAddresses("2001:db8::5"),
			want: ownership.Decision{Held: addrs("2001:db8::5"), Standby: addrs("192.0.2.5")},
		},
		{
			name: "one address for API and ingress",
			api:  addrs("192.0.2.5"), ingress: addrs("192.0.2.5"),
			held: hostAddresses("192.0.2.5"),
			want: ownership.Decision{NotRequired: addrs("192.0.2.5")},
		},
		{
			name: "one address for API and ingress, mapped form",
			api:  addrs("::ffff:192.0.2.5"), ingress: addrs("192.0.2.5"),
			held: hostAddresses("192.0.2.5"),
			want: ownership.Decision{NotRequired: addrs("192.0.2.5")},
		},
		{
			name: "the API VIP of one family is the ingress VIP, the other is not",
			api:  addrs("192.0.2.5", "2001:db8::5"), ingress: addrs("192.0.2.5", "2001:db8::6"),
			held: hostAddresses("192.0.2.5", "2001:db8::5"),
			want: ownership.Decision{Held: addrs("2001:db8::5"), NotRequired: addrs("192.0.2.5")},
		},
		{
			name: "duplicates and mapped forms, sorted",
			api:  addrs("192.0.2.9", "::ffff:192.0.2.5", "192.0.2.5", "192.0.2.9"),
			held: hostAddresses("::ffff:192.0.2.9", "192.0.2.5"),
			want: ownership.Decision{Held: addrs("192.0.2.5", "192.0.2.9")},
		},
		{
			name: "tentative",
			api:  addrs("2001:db8::5"),
			held: []ownership.Address{{IP: vip6, Tentative: true}},
			want: ownership.Decision{Standby: addrs("2001:db8::5")},
		},
		{
			name: "duplicate address detection failed",
			api:  addrs("2001:db8::5"),
			held: []ownership.Address{{IP: vip6, DADFailed: true}},
			want: ownership.Decision{Standby: addrs("2001:db8::5")},
		},
		{
			name: "failed on one link, final on another",
			api:  addrs("2001:db8::5"),
			held: []ownership.Address{{IP: vip6, DADFailed: true, Tentative: true}, {IP: vip6}},
			want: ownership.Decision{Held: addrs("2001:db8::5")},
		},
		{
			name: "invalid addresses",
			api:  []netip.Addr{{}, vip4}, ingress: []netip.Addr{{}},
			held: []ownership.Address{{}, {IP: vip4}},
			want: ownership.Decision{Held: addrs("192.0.2.5")},
		},
		{
			name: "a link-local address of some link is not the VIP without a zone",
			api:  addrs("fe80::5"),
			held: hostAddresses("fe80::5%eth0"),
			want: ownership.Decision{Standby: addrs("fe80::5")},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := ownership.Decide(tt.api, tt.ingress, tt.held)
			if diff := cmp.Diff(tt.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Errorf("Decide (-want +got):\n%s", diff)
			}
		})
	}
}

// randomAddrs returns up to n addresses of a small set, so that the three inputs often have
// the same ones. Some are IPv4-mapped and some are invalid.
func randomAddrs(r *rand.Rand, n int) []netip.Addr {
	universe := addrs("192.0.2.1", "192.0.2.2", "::ffff:192.0.2.1", "::ffff:192.0.2.3", "2001:db8::1", "2001:db8::2")
	universe = append(universe, netip.Addr{})
	list := make([]netip.Addr, r.IntN(n+1))
	for i := range list {
		list[i] = universe[r.IntN(len(universe))]
	}
	return list
}

func TestDecideProperties(t *testing.T) {
	t.Parallel()
	const seed1, seed2 = 1, 2
	r := rand.New(rand.NewPCG(seed1, seed2))
	equal := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	for range 20_000 {
		api, ingress := randomAddrs(r, 5), randomAddrs(r, 4)
		var held []ownership.Address
		for _, ip := range randomAddrs(r, 6) {
			held = append(held, ownership.Address{IP: ip, Tentative: r.IntN(4) == 0, DADFailed: r.IntN(4) == 0})
		}
		d := ownership.Decide(api, ingress, held)

		classes := map[netip.Addr]int{}
		for _, list := range [][]netip.Addr{d.Held, d.Standby, d.NotRequired} {
			if !slices.IsSortedFunc(list, netip.Addr.Compare) {
				t.Fatalf("not sorted: %v", list)
			}
			for _, a := range list {
				classes[a]++
			}
		}
		want := map[netip.Addr]int{}
		for _, a := range api {
			if a.IsValid() {
				want[a.Unmap()] = 1
			}
		}
		if diff := cmp.Diff(want, classes, equal); diff != "" {
			t.Fatalf("Decide(%v, %v, %v) = %v: classes of each VIP (-want +got):\n%s", api, ingress, held, d, diff)
		}
		for _, a := range d.NotRequired {
			if !slices.ContainsFunc(ingress, func(i netip.Addr) bool { return i.Unmap() == a }) {
				t.Fatalf("Decide(%v, %v, %v) = %v: %v is not an ingress VIP", api, ingress, held, d, a)
			}
		}
		for _, a := range d.Held {
			if !slices.ContainsFunc(held, func(h ownership.Address) bool {
				return h.IP.Unmap() == a && !h.Tentative && !h.DADFailed
			}) {
				t.Fatalf("Decide(%v, %v, %v) = %v: %v is not usable on this host", api, ingress, held, d, a)
			}
		}

		shuffle := func(list []netip.Addr) []netip.Addr {
			list = slices.Clone(list)
			r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			return list
		}
		slices.Reverse(held)
		if diff := cmp.Diff(d, ownership.Decide(shuffle(api), shuffle(ingress), held), equal); diff != "" {
			t.Fatalf("the order of the inputs matters (-before +after):\n%s", diff)
		}
	}
}
