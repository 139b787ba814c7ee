// SPDX-License-Identifier: Apache-2.0

package ownership_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/ownership"
)

func addrs(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, s := range texts {
		list = append(list, netip.MustParseAddr(s))
	}
	return list
}

func hostAddresses(texts ...string) []address.Address {
	var list []address.Address
	for _, a := range addrs(texts...) {
		list = append(list, address.Address{IP: a})
	}
	return list
}

func TestDecide(t *testing.T) {
	t.Parallel()
	vip4, vip6 := netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("2001:db8::5")
	tests := []struct {
		name         string
		api, ingress []netip.Addr
		held         []address.Address
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
			held: []address.Address{{IP: vip6, Tentative: true}},
			want: ownership.Decision{Standby: addrs("2001:db8::5")},
		},
		{
			name: "duplicate address detection failed",
			api:  addrs("2001:db8::5"),
			held: []address.Address{{IP: vip6, DADFailed: true}},
			want: ownership.Decision{Standby: addrs("2001:db8::5")},
		},
		{
			name: "failed on one link, final on another",
			api:  addrs("2001:db8::5"),
			held: []address.Address{{IP: vip6, DADFailed: true, Tentative: true}, {IP: vip6}},
			want: ownership.Decision{Held: addrs("2001:db8::5")},
		},
		{
			name: "invalid addresses",
			api:  []netip.Addr{{}, vip4}, ingress: []netip.Addr{{}},
			held: []address.Address{{}, {IP: vip4}},
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
