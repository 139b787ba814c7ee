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

// excluded are the addresses that are never caught: those by which pods reach
// DefaultMicroShiftDir's API server. Where its configuration is not known, they may be the
// default ones, or the last that were known; where nothing of DefaultMicroShiftDir is looked
// at, or seen, an address tells by the place that it has.
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

// knownInternal are the internal addresses that are known besides the default ones.
func (s observation) knownInternal() []netip.Addr {
	return slices.Concat(s.rememberedInternal, s.defaultDirInternal)
}

// onInternalLink are the addresses that are where a DefaultMicroShiftDir puts its internal
// ones. keepalived has VIPs alone on br-ex, too, so none counts but a default one or
// one of those that were known last.
func onInternalLink(addresses []ownership.Address, last []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range addresses {
		if place := a.Link == "" || microshift.IsInternalLink(a.Link); place && isInternalCandidate(a.IP, a.Bits, last) {
			out = append(out, a.IP.Unmap())
		}
	}
	return out
}

// isInternalCandidate holds for a single address that is a default one or one of last.
func isInternalCandidate(ip netip.Addr, bits int, last []netip.Addr) bool {
	ip = ip.Unmap()
	return bits == ip.BitLen() && (slices.Contains(microshift.DefaultInternalAddresses(), ip) || slices.Contains(last, ip))
}

// NeedsLinkNames reports whether what is guarded hangs on the names of the links; last are
// the internal addresses that were known last.
func NeedsLinkNames(found []address.Address, last []netip.Addr) bool {
	return slices.ContainsFunc(found, func(a address.Address) bool { return isInternalCandidate(a.IP, a.Bits, last) })
}

// ExcludedAddresses are the addresses that the service never catches on a host whose
// DefaultMicroShiftDir has answered a; last are the internal addresses that were known last.
func ExcludedAddresses(a microshift.Snapshot, computed microshift.Computed, addresses []ownership.Address, last []netip.Addr) []netip.Addr {
	return observation{microShift: microShift{Snapshot: a, computed: computed}, addresses: addresses, rememberedInternal: last}.excluded()
}

// describeInternal says what addresses of vips.api, or of keepalived's, are, of which
// nothing is caught.
func (s observation) describeInternal(internal []netip.Addr) string {
	if s.microShift.Present {
		return joinAddrs(internal) + " is the internal address of MicroShift's API server, of which nothing is caught"
	}
	places := make([]string, len(internal))
	for i, a := range internal {
		places[i] = fmt.Sprintf("%v is on %s as a single address", a, s.linkName(a))
	}
	return strings.Join(places, " and ") + ", where MicroShift has the internal address of its API server, of which nothing is caught"
}

// internalRemediation is for who has such an address for a VIP indeed.
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
	return fmt.Sprintf("; if that is %s, put it on another link, or there with its network's prefix length in place of %s", joinAddrs(internal), strings.Join(lengths, " and "))
}

// linkName names the link that makes an address a guarded one.
func (s observation) linkName(addr netip.Addr) string {
	for _, a := range s.addresses {
		if a.IP.Unmap() == addr && a.Bits == addr.BitLen() && a.Link != "" {
			return a.Link
		}
	}
	return "a link"
}
