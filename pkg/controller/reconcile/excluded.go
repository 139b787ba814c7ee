// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"net/netip"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift/decision"
)

// excluded returns the addresses that are never redirected.
func (o observation) excluded() []netip.Addr {
	return decision.Excluded(o.microShift, o.addresses, o.rememberedInternal)
}

// describeInternal describes addresses of vips.api or of keepalived.conf that are never
// redirected. remediation is that for a VIP that looks like such an address.
func (o observation) describeInternal(internal []netip.Addr) (text, remediation string) {
	if o.microShift.Present {
		return address.Join(internal) + " is the internal address of MicroShift's API server, which is never redirected", ""
	}
	return address.Join(internal) + " is a single address on lo or br-ex, where MicroShift puts the internal address of " +
			"its API server, which is never redirected",
		"; if it is a VIP, move it to another link, or add it with the prefix length of its network"
}
