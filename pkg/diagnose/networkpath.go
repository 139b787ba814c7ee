// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"math/bits"
	"net"
	"net/netip"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/route"
)

// networkPath is how this host gets to an address.
type networkPath struct {
	link    *net.Interface // that has the address, or by which packets leave
	local   bool           // this host has it, on that link
	gateway netip.Addr     // the router to it, where it is on no network of this host
	source  netip.Addr     // this host's own address on the way, which is no VIP; not valid: none is known
}

// pathTo asks the routing table: addresses do not tell which network a link is
// on, for a node's own may be single ones. own are this host's addresses.
func (h *host) pathTo(addr netip.Addr, own []address.Address) (networkPath, error) {
	w := networkPath{}
	var index uint32
	i := slices.IndexFunc(own, func(a address.Address) bool { return a.IP == addr && !a.DADFailed })
	if w.local = i >= 0; w.local {
		index = own[i].Link
	} else {
		r, err := route.Get(addr)
		switch {
		case err != nil:
			return w, err
		case r.Local:
			return w, fmt.Errorf("%v has just come to this host", addr)
		}
		index, w.gateway, w.source = r.Link, r.Gateway, r.Source
	}
	var err error
	if w.link, err = net.InterfaceByIndex(int(index)); err != nil {
		return w, fmt.Errorf("look at link %d, by which %v is reached: %w", index, addr, err)
	}
	if !w.source.IsValid() || h.isVIP(w.source) {
		w.source = h.closestOwnAddress(addr, index, own)
	}
	return w, nil
}

func (h *host) isVIP(addr netip.Addr) bool {
	return slices.Contains(h.vips.API, addr) || slices.Contains(h.vips.Ingress, addr)
}

// closestOwnAddress is the address of a link that another one is closest to, VIPs and
// those that mean nothing elsewhere left out: a node's uplink has others than
// its own, such as OVN-Kubernetes's for masquerading.
func (h *host) closestOwnAddress(addr netip.Addr, link uint32, own []address.Address) netip.Addr {
	var best netip.Addr
	shared := -1
	for _, a := range own {
		if a.Link != link || a.IP.Is4() != addr.Is4() || a.IP.IsLinkLocalUnicast() || a.DADFailed || a.Tentative || h.isVIP(a.IP) {
			continue
		}
		if n := commonPrefixLen(a.IP, addr); n > shared {
			best, shared = a.IP, n
		}
	}
	return best
}

// commonPrefixLen is how many bits two addresses have in common at their beginning.
func commonPrefixLen(a, b netip.Addr) int {
	x, y := a.AsSlice(), b.AsSlice()
	for i := range x {
		if d := x[i] ^ y[i]; d != 0 {
			return 8*i + bits.LeadingZeros8(d)
		}
	}
	return 8 * len(x)
}

// linkLocalAddress is a link's own address that is valid on it alone.
func linkLocalAddress(link *net.Interface, own []address.Address) (netip.Addr, bool) {
	i := slices.IndexFunc(own, func(a address.Address) bool {
		return int(a.Link) == link.Index && a.IP.Is6() && a.IP.IsLinkLocalUnicast() && !a.Tentative && !a.DADFailed
	})
	if i < 0 {
		return netip.Addr{}, false
	}
	return own[i].IP, true
}
