// SPDX-License-Identifier: Apache-2.0

package ruleset_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
)

func parseAddrs(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, s := range texts {
		list = append(list, netip.MustParseAddr(s))
	}
	return list
}

func TestNewIsCanonical(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		held []netip.Addr
		want []netip.Addr
	}{
		{name: "none"},
		{
			name: "both families, unsorted, repeated",
			held: parseAddrs("2001:db8::5", "192.0.2.9", "192.0.2.5", "2001:db8::5"),
			want: parseAddrs("192.0.2.5", "192.0.2.9", "2001:db8::5"),
		},
		{
			name: "mapped",
			held: parseAddrs("::ffff:192.0.2.5", "192.0.2.5"),
			want: parseAddrs("192.0.2.5"),
		},
		{
			name: "addresses that no host can hold",
			held: append(parseAddrs("0.0.0.0", "::", "::ffff:0.0.0.0", "224.0.0.18", "ff02::12", "fe80::5%eth0"), netip.Addr{}),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := ruleset.New(8888, tt.held).VIPs()
			if diff := cmp.Diff(tt.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Errorf("VIPs (-want +got):\n%s", diff)
			}
		})
	}
}

// Equal tables print the same text and different tables print different texts, in any order
// of the VIPs.
func TestTextFollowsValue(t *testing.T) {
	t.Parallel()
	universe := parseAddrs("192.0.2.1", "192.0.2.2", "::ffff:192.0.2.1", "2001:db8::1", "2001:db8::2", "::")
	r := rand.New(rand.NewPCG(3, 4))
	random := func() ruleset.Table {
		held := make([]netip.Addr, r.IntN(6))
		for i := range held {
			held[i] = universe[r.IntN(len(universe))]
		}
		return ruleset.New(uint16(8888+r.IntN(2)), held)
	}
	equal := 0
	for range 20_000 {
		a, b := random(), random()
		if (a == b) != (a.String() == b.String()) {
			t.Fatalf("equal: %v for\n%s\n%s", a == b, a, b)
		}
		if a == b {
			equal++
		}
		if a != ruleset.New(a.Port(), a.VIPs()) {
			t.Fatalf("%v does not come back from its own VIPs", a)
		}
		if a == (ruleset.Table{}) || a.String() == (ruleset.Table{}).String() {
			t.Fatalf("%v is no table", a)
		}
	}
	if equal == 0 {
		t.Fatal("no two tables were equal: the universe is too large for this test")
	}
}

// A Table returns copies: changing them does not change the table.
func TestTableIsImmutable(t *testing.T) {
	t.Parallel()
	held := parseAddrs("192.0.2.5", "2001:db8::5")
	table := ruleset.New(8888, held)
	before := table.String()
	held[0] = netip.MustParseAddr("192.0.2.66")
	table.VIPs()[0] = netip.MustParseAddr("192.0.2.66")
	table.Sets()[0].Elements[0] = netip.MustParseAddr("192.0.2.66")
	table.Chains()[0].Rules[0] = ruleset.RejectDirect{}
	if diff := cmp.Diff(before, table.String()); diff != "" {
		t.Errorf("table changed (-before +after):\n%s", diff)
	}
}
