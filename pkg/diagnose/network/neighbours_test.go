// SPDX-License-Identifier: Apache-2.0

package network

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
)

// TestClosestOwnAddress: a node's uplink has VIPs and OVN-Kubernetes's addresses
// besides its own, which may be a single address.
func TestClosestOwnAddress(t *testing.T) {
	t.Parallel()
	var h Host
	for _, vip := range []string{"192.0.2.5", "2001:db8::5", "192.0.2.6", "2001:db8::6"} {
		h.VIPs.API = append(h.VIPs.API, netip.MustParseAddr(vip))
	}
	for _, text := range []string{
		"169.254.0.2", "192.0.2.6", "192.0.2.5", "192.0.2.11", "10.0.0.9",
		"fe80::1", "fd69::2", "2001:db8::5", "2001:db8::6", "2001:db8::11",
	} {
		h.Addresses = append(h.Addresses, address.Address{IP: netip.MustParseAddr(text), Link: 2})
	}
	h.Addresses = append(h.Addresses, address.Address{IP: netip.MustParseAddr("192.0.2.7"), Link: 3})
	for vip, want := range map[string]string{"192.0.2.5": "192.0.2.11", "2001:db8::5": "2001:db8::11"} {
		if got := h.closestAddress(netip.MustParseAddr(vip), 2); got.String() != want {
			t.Errorf("%s: got %v, want %s", vip, got, want)
		}
	}
	if got := h.closestAddress(netip.MustParseAddr("192.0.2.5"), 4); got.IsValid() {
		t.Errorf("a link without addresses: %v", got)
	}
}

// TestIsVRRPMAC: every host of a VRRP group has these addresses.
func TestIsVRRPMAC(t *testing.T) {
	for text, want := range map[string]bool{
		"00:00:5e:00:01:39": true, "00:00:5e:00:02:39": true,
		"00:00:5e:00:53:01": false, "52:54:00:5e:00:01": false,
	} {
		hardware, err := net.ParseMAC(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := isVRRPMAC(hardware); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

// TestIgnoreOtherFamilyMACs: the IPv6 links of use_vmac are not a second holder of an
// IPv4 VIP.
func TestIgnoreOtherFamilyMACs(t *testing.T) {
	four, six, card := "00:00:5e:00:01:39", "00:00:5e:00:02:39", "52:54:00:00:00:01"
	for _, tt := range []struct {
		name       string
		vip        string
		given, got []string
	}{
		{"one holder with both", "192.0.2.5", []string{four, six}, []string{four}},
		{"and another host", "192.0.2.5", []string{six, card, four}, []string{card, four}},
		{"IPv6 alone answers", "192.0.2.5", []string{six}, []string{six}},
		{"an IPv6 VIP", "2001:db8::5", []string{four, six}, []string{four, six}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := ignoreOtherFamilyMACs(netip.MustParseAddr(tt.vip), tt.given); !slices.Equal(got, tt.got) {
				t.Errorf("%v, want %v", got, tt.got)
			}
		})
	}
}
