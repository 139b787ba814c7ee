// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/ownership"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
)

// excluded returns the addresses that are never redirected: those that pods use for
// MicroShift's API server. If its configuration is not known, these are the default ones
// and the last known ones. Without MicroShift, an address is excluded if its link and
// prefix length are those of MicroShift's internal addresses.
func (s observation) excluded() []netip.Addr {
	placed := onInternalLink(s.addresses, s.knownInternal())
	switch m := s.microShift; {
	case !m.Present:
		return placed
	case len(m.computed.Internal) > 0:
		return append(placed, m.computed.Internal...)
	default:
		return slices.Concat(microshift.DefaultInternalAddresses(), s.knownInternal())
	}
}

// knownInternal returns the known internal addresses besides the default ones.
func (s observation) knownInternal() []netip.Addr {
	return slices.Concat(s.rememberedInternal, s.defaultDirInternal)
}

// onInternalLink returns the addresses on a link on which MicroShift has its internal
// addresses. keepalived also adds VIPs as single addresses to br-ex, so only a default
// address or one of last counts.
func onInternalLink(addresses []ownership.Address, last []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range addresses {
		if place := a.Link == "" || microshift.IsInternalLink(a.Link); place && isInternalCandidate(a.IP, a.Bits, last) {
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

// NeedsLinkNames reports whether ExcludedAddresses depends on the names of the links;
// last is the last known internal addresses.
func NeedsLinkNames(found []address.Address, last []netip.Addr) bool {
	return slices.ContainsFunc(found, func(a address.Address) bool { return isInternalCandidate(a.IP, a.Bits, last) })
}

// ExcludedAddresses returns the addresses that the service never redirects on a host with
// this MicroShift; last is the last known internal addresses.
func ExcludedAddresses(a microshift.Snapshot, computed microshift.Computed, addresses []ownership.Address, last []netip.Addr) []netip.Addr {
	return observation{microShift: microShift{Snapshot: a, computed: computed}, addresses: addresses, rememberedInternal: last}.excluded()
}

// describeInternal describes addresses of vips.api or of keepalived.conf that are never
// redirected.
func (s observation) describeInternal(internal []netip.Addr) string {
	if s.microShift.Present {
		return joinAddrs(internal) + " is the internal address of MicroShift's API server, which is never redirected"
	}
	places := make([]string, len(internal))
	for i, a := range internal {
		places[i] = fmt.Sprintf("%v is on %s as a single address", a, s.linkName(a))
	}
	return strings.Join(places, " and ") + ", where MicroShift has the internal address of its API server, which is never redirected"
}

// internalRemediation returns the remediation for a VIP that looks like such an address.
func (s observation) internalRemediation(internal []netip.Addr) string {
	if s.microShift.Present {
		return ""
	}
	var lengths []string
	for _, a := range internal {
		if length := fmt.Sprintf("/%d", a.BitLen()); !slices.Contains(lengths, length) {
			lengths = append(lengths, length)
		}
	}
	return fmt.Sprintf("; if %s is a VIP, move it to another link, or replace its prefix length %s by that of its network", joinAddrs(internal), strings.Join(lengths, " and "))
}

// linkName returns the link because of which an address is excluded.
func (s observation) linkName(addr netip.Addr) string {
	for _, a := range s.addresses {
		if a.IP.Unmap() == addr && a.Bits == addr.BitLen() && a.Link != "" {
			return a.Link
		}
	}
	return "a link"
}
