// SPDX-License-Identifier: Apache-2.0

package check

import (
	"net/netip"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/keepalived"
)

// TestKin: hosts are told apart by who answers for the own address of each.
func TestKin(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		all     []string
		answers [][]string
		want    kinship
	}{
		"two NICs":                {[]string{"a1", "a2"}, [][]string{{"a2", "a1"}}, oneHost},
		"two hosts":               {[]string{"a", "b"}, [][]string{{"a"}, {"b"}}, strangers},
		"one of them is known":    {[]string{"a", "b"}, [][]string{{"a"}}, strangers},
		"none is known":           {[]string{"a", "b"}, nil, unknownKin},
		"who is known is away":    {[]string{"a", "b"}, [][]string{{}}, unknownKin},
		"of others' addresses":    {[]string{"a", "b"}, [][]string{{"c"}}, unknownKin},
		"two hosts, one has two":  {[]string{"a1", "a2", "b"}, [][]string{{"a1", "a2"}, {"b"}}, strangers},
		"three NICs, pair by way": {[]string{"a1", "a2", "a3"}, [][]string{{"a1", "a2"}, {"a3", "a2"}}, oneHost},
	} {
		if got := kin(tt.all, tt.answers); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

// TestOwnBeside: a node's uplink has VIPs and OVN-Kubernetes's addresses beside
// its own, which may be a single one.
func TestOwnBeside(t *testing.T) {
	t.Parallel()
	h := &host{vips: keepalived.VIPs{
		API:     []netip.Addr{netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("2001:db8::5")},
		Ingress: []netip.Addr{netip.MustParseAddr("192.0.2.6"), netip.MustParseAddr("2001:db8::6")},
	}}
	var own []address.Address
	for _, text := range []string{
		"169.254.0.2", "192.0.2.6", "192.0.2.5", "192.0.2.11", "10.0.0.9",
		"fe80::1", "fd69::2", "2001:db8::5", "2001:db8::6", "2001:db8::11",
	} {
		own = append(own, address.Address{IP: netip.MustParseAddr(text), Link: 2})
	}
	own = append(own, address.Address{IP: netip.MustParseAddr("192.0.2.7"), Link: 3})
	for vip, want := range map[string]string{"192.0.2.5": "192.0.2.11", "2001:db8::5": "2001:db8::11"} {
		if got := h.ownBeside(netip.MustParseAddr(vip), 2, own); got.String() != want {
			t.Errorf("%s: got %v, want %s", vip, got, want)
		}
	}
	if got := h.ownBeside(netip.MustParseAddr("192.0.2.5"), 4, own); got.IsValid() {
		t.Errorf("a link without addresses: %v", got)
	}
}
