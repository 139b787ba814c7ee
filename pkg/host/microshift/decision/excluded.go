// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"net/netip"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
)

// Excluded returns the addresses that are never redirected, because pods use them for
// MicroShift's API server. If its configuration is not known, these are the default ones and
// the last known ones. Without MicroShift, an address is excluded if its link and prefix length
// match MicroShift's internal addresses.
func Excluded(s State, addresses []address.Address, last []netip.Addr) []netip.Addr {
	placed := onInternalLink(addresses, last)
	switch {
	case !s.Present:
		return placed
	case len(s.Computed.Internal) > 0:
		return append(placed, s.Computed.Internal...)
	default:
		return slices.Concat(microshift.DefaultInternalAddresses(), last)
	}
}

// onInternalLink returns the addresses on the link of MicroShift's internal addresses.
// keepalived also adds VIPs as single addresses to br-ex, so only a default address or one of
// last counts.
func onInternalLink(addresses []address.Address, last []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range addresses {
		place := a.LinkName == "" || microshift.IsInternalLink(a.LinkName)
		if place && isInternalCandidate(a.IP, a.Bits, last) {
			out = append(out, a.IP.Unmap())
		}
	}
	return out
}

// isInternalCandidate reports whether a single address is a default one or one of last.
func isInternalCandidate(ip netip.Addr, bits int, last []netip.Addr) bool {
	ip = ip.Unmap()
	return bits == ip.BitLen() && (slices.Contains(microshift.DefaultInternalAddresses(), ip) || slices.Contains(last, ip))
}

// NeedsLinkNames reports whether Excluded depends on the names of the links;
// last is the last known internal addresses.
func NeedsLinkNames(found []address.Address, last []netip.Addr) bool {
	return slices.ContainsFunc(found, func(a address.Address) bool { return isInternalCandidate(a.IP, a.Bits, last) })
}
