// SPDX-License-Identifier: Apache-2.0

package network

import (
	"net/netip"
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
