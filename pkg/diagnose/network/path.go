// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"math/bits"
	"net"
	"net/netip"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/vips"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/route"
)

// Host is this host in its network.
type Host struct {
	Addresses []address.Address
	VIPs      vips.VIPs
}

// Has reports whether an address is on this host.
func (h Host) Has(addr netip.Addr) bool {
	return slices.ContainsFunc(h.Addresses, func(a address.Address) bool { return a.IP == addr })
}

// Path is the path from this host to an address.
type Path struct {
	Link    *net.Interface // the link with the address, or the output link
	Local   bool           // the address is on that link of this host
	Gateway netip.Addr     // the router, if the address is on no network of this host
	Source  netip.Addr     // this host's own address on the path, never a VIP; invalid if unknown
}

// PathTo queries the routing table. Addresses do not show the network of a link, because the
// addresses of a node may be single addresses.
func (h Host) PathTo(addr netip.Addr) (Path, error) {
	w := Path{}
	var index uint32
	i := slices.IndexFunc(h.Addresses, func(a address.Address) bool { return a.IP == addr && !a.DADFailed })
	if w.Local = i >= 0; w.Local {
		index = h.Addresses[i].Link
	} else {
		r, err := route.Get(addr)
		switch {
		case err != nil:
			return w, err
		case r.Local:
			return w, fmt.Errorf("%v has just moved to this host", addr)
		}
		index, w.Gateway, w.Source = r.Link, r.Gateway, r.Source
	}
	var err error
	if w.Link, err = net.InterfaceByIndex(int(index)); err != nil {
		return w, fmt.Errorf("cannot read link %d towards %v: %w", index, addr, err)
	}
	if !w.Source.IsValid() || h.VIPs.Contains(w.Source) {
		w.Source = h.closestAddress(addr, index)
	}
	return w, nil
}

// closestAddress is the address of a link with the longest common prefix with addr. VIPs and
// link-local addresses are left out. Other addresses may be on a node's uplink, such as
// OVN-Kubernetes's for masquerading.
func (h Host) closestAddress(addr netip.Addr, link uint32) netip.Addr {
	var best netip.Addr
	shared := -1
	for _, a := range h.Addresses {
		if a.Link != link || a.IP.Is4() != addr.Is4() || a.IP.IsLinkLocalUnicast() || a.DADFailed || a.Tentative ||
			h.VIPs.Contains(a.IP) {
			continue
		}
		if n := commonPrefixLen(a.IP, addr); n > shared {
			best, shared = a.IP, n
		}
	}
	return best
}

// commonPrefixLen is the length of the common prefix of two addresses, in bits.
func commonPrefixLen(a, b netip.Addr) int {
	x, y := a.AsSlice(), b.AsSlice()
	for i := range x {
		if d := x[i] ^ y[i]; d != 0 {
			return 8*i + bits.LeadingZeros8(d)
		}
	}
	return 8 * len(x)
}
