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

// guarded are the addresses that are never caught: those by which pods reach
// MicroShift's API server. Where its configuration is not known, they may be the
// default ones, or the last that were known; where nothing of MicroShift is looked
// at, or seen, an address tells by the place that it has.
func (s sight) guarded() []netip.Addr {
	placed := placedAsInternal(s.addresses, s.knownInternal())
	switch m := s.microShift; {
	case !m.Present:
		return placed
	case len(m.computed.Internal) > 0:
		return append(placed, m.computed.Internal...)
	default:
		return slices.Concat(microshift.Guarded(), s.knownInternal())
	}
}

// knownInternal are the internal addresses that are known besides the default ones.
func (s sight) knownInternal() []netip.Addr { return slices.Concat(s.lastInternal, s.usualInternal) }

// placedAsInternal are the addresses that are where a MicroShift puts its internal
// ones. keepalived has VIPs alone on br-ex, too, so none counts but a default one or
// one of those that were known last.
func placedAsInternal(addresses []ownership.Address, last []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range addresses {
		if place := a.Link == "" || microshift.HasInternal(a.Link); place && mayBeInternal(a.IP, a.Bits, last) {
			out = append(out, a.IP.Unmap())
		}
	}
	return out
}

// mayBeInternal holds for a single address that is a default one or one of last.
func mayBeInternal(ip netip.Addr, bits int, last []netip.Addr) bool {
	ip = ip.Unmap()
	return bits == ip.BitLen() && (slices.Contains(microshift.Guarded(), ip) || slices.Contains(last, ip))
}

// NeedLinks reports whether what is guarded hangs on the names of the links; last are
// the internal addresses that were known last.
func NeedLinks(found []address.Address, last []netip.Addr) bool {
	return slices.ContainsFunc(found, func(a address.Address) bool { return mayBeInternal(a.IP, a.Bits, last) })
}

// Guarded are the addresses that the service never catches on a host whose
// MicroShift has answered a; last are the internal addresses that were known last.
func Guarded(a microshift.Answer, computed microshift.Computed, addresses []ownership.Address, last []netip.Addr) []netip.Addr {
	return sight{microShift: microShift{Answer: a, computed: computed}, addresses: addresses, lastInternal: last}.guarded()
}

// sayInternal says what addresses of vips.api, or of keepalived's, are, of which
// nothing is caught.
func (s sight) sayInternal(internal []netip.Addr) string {
	if s.microShift.Present {
		return list(internal) + " is the internal address of MicroShift's API server, of which nothing is caught"
	}
	places := make([]string, len(internal))
	for i, a := range internal {
		places[i] = fmt.Sprintf("%v is on %s as a single address", a, s.linkOf(a))
	}
	return strings.Join(places, " and ") + ", where MicroShift has the internal address of its API server, of which nothing is caught"
}

// mendInternal is for who has such an address for a VIP indeed.
func (s sight) mendInternal(internal []netip.Addr) string {
	if s.microShift.Present {
		return ""
	}
	var lengths []string
	for _, a := range internal {
		if length := fmt.Sprintf("/%d", a.BitLen()); !slices.Contains(lengths, length) {
			lengths = append(lengths, length)
		}
	}
	return fmt.Sprintf("; if that is %s, put it on another link, or there with its network's prefix length in place of %s", list(internal), strings.Join(lengths, " and "))
}

// linkOf names the link that makes an address a guarded one.
func (s sight) linkOf(addr netip.Addr) string {
	for _, a := range s.addresses {
		if a.IP.Unmap() == addr && a.Bits == addr.BitLen() && a.Link != "" {
			return a.Link
		}
	}
	return "a link"
}
