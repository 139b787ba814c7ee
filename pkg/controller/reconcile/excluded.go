// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift/decision"
)

// excluded returns the addresses that are never redirected.
func (o observation) excluded() []netip.Addr {
	return decision.Excluded(o.microShift.state(), o.addresses, o.rememberedInternal)
}

// describeInternal describes addresses of vips.api or of keepalived.conf that are never
// redirected.
func (o observation) describeInternal(internal []netip.Addr) string {
	if o.microShift.Present {
		return address.Join(internal) + " is the internal address of MicroShift's API server, which is never redirected"
	}
	places := make([]string, len(internal))
	for i, a := range internal {
		places[i] = fmt.Sprintf("%v is on %s as a single address", a, o.linkName(a))
	}
	return strings.Join(places, " and ") + ", where MicroShift has the internal address of its API server, " +
		"which is never redirected"
}

// internalRemediation returns the remediation for a VIP that looks like such an address.
func (o observation) internalRemediation(internal []netip.Addr) string {
	if o.microShift.Present {
		return ""
	}
	return fmt.Sprintf("; if %s is a VIP, move it to another link, or add it with the prefix length of its network",
		address.Join(internal))
}

// linkName returns the link because of which an address is excluded.
func (o observation) linkName(addr netip.Addr) string {
	for _, a := range o.addresses {
		if a.IP.Unmap() == addr && a.Bits == addr.BitLen() && a.Link != "" {
			return a.Link
		}
	}
	return "a link"
}
