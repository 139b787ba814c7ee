// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"cmp"
	"net/netip"
	"slices"
)

const (
	ovnBridge = "br-ex" // of OVN-Kubernetes
	loopback  = "lo"
)

// IsInternalLink reports whether a link is one on which MicroShift puts the internal
// addresses, alone: lo, or br-ex where OVN-Kubernetes has made that
// (addServiceIPLoopback of pkg/node/netconfig.go).
func IsInternalLink(link string) bool { return link == loopback || link == ovnBridge }

// Host is as much of a host as MicroShift looks at.
type Host struct {
	Links     []Link
	Addresses []Address // in the kernel's order
	// The links of the default routes, in the order of the main table.
	DefaultLinks4, DefaultLinks6 []string
	// Settled says that no address is to be waited for where a default route leads: at
	// boot the route is there before it, and MicroShift starts after that.
	AddressesSettled bool
}

// Link is a network interface.
type Link struct {
	Index  uint32
	Name   string
	Master uint32 // the link that this one belongs to; 0: none
	Up     bool
}

// Address is an address of a link.
type Address struct {
	IP   netip.Addr
	Bits int
	Link uint32
}

// nodeAddress is the host's address where none is given: that of a default route's
// link, IPv4 first (ChooseHostInterface of k8s.io/apimachinery), and where there is no
// default route, or none that leads to an address, the first one of the links as they
// were made (selectIPFromHostInterface).
func (h Host) nodeAddress() netip.Addr {
	for _, family := range []struct {
		is     func(netip.Addr) bool
		routes []string
	}{{netip.Addr.Is4, h.DefaultLinks4}, {netip.Addr.Is6, h.DefaultLinks6}} {
		for _, name := range family.routes {
			link, found := h.linkByName(name)
			if !found || !link.Up {
				continue
			}
			for _, name := range []string{link.Name, loopback} { // hosts with routes to themselves have theirs on lo
				if a := h.globalAddress(name, family.is); a.IsValid() {
					return a
				}
			}
		}
	}
	if len(h.DefaultLinks4)+len(h.DefaultLinks6) > 0 && !h.AddressesSettled {
		return netip.Addr{}
	}
	return h.firstAddress()
}

func (h Host) firstAddress() netip.Addr {
	links := slices.Clone(h.Links)
	slices.SortFunc(links, func(a, b Link) int { return cmp.Compare(a.Index, b.Index) })
	for _, l := range links {
		if l.Name == ovnBridge {
			continue
		}
		for _, a := range h.Addresses {
			// MicroShift would take a link-local one, too, but does not work with it.
			if a.Link == l.Index && !a.IP.IsLoopback() && !a.IP.IsLinkLocalUnicast() {
				return a.IP
			}
		}
	}
	return netip.Addr{}
}

// withoutAddresses is the host as it would be without addresses that MicroShift itself, or
// this service, puts on it: they are never the node's.
func (h Host) withoutAddresses(own []netip.Addr) Host {
	h.Addresses = slices.DeleteFunc(slices.Clone(h.Addresses), func(a Address) bool {
		return a.Bits == a.IP.BitLen() && slices.Contains(own, a.IP)
	})
	return h
}

// withLoopbackAddress is the host with one address more, where the kernel lists it: a new one
// of IPv6 comes before others of its scope, and one of IPv4 after them.
func (h Host) withLoopbackAddress(addr netip.Addr) Host {
	a := Address{IP: addr, Bits: addr.BitLen()}
	if lo, found := h.linkByName(loopback); found {
		a.Link = lo.Index
	}
	at := len(h.Addresses)
	if addr.Is6() {
		at = 0
	}
	h.Addresses = slices.Insert(slices.Clone(h.Addresses), at, a)
	return h
}

func (h Host) globalAddress(name string, family func(netip.Addr) bool) netip.Addr {
	link, found := h.linkByName(name)
	if !found {
		return netip.Addr{}
	}
	for _, a := range h.Addresses {
		if a.Link == link.Index && family(a.IP) && a.IP.IsGlobalUnicast() {
			return a.IP
		}
	}
	return netip.Addr{}
}

// nodeAddressIPv6 is the IPv6 address of a dual stack's node. GetHostIPv6 looks at the
// default route's link first, though with newer releases of its netlink library it
// does not find that route, and takes the host's first address; where these differ
// nothing but node.nodeIPv6 tells.
func (h Host) nodeAddressIPv6() netip.Addr {
	for _, name := range h.DefaultLinks6 {
		if a := h.globalAddress(name, netip.Addr.Is6); a.IsValid() {
			return a
		}
	}
	for _, a := range h.Addresses {
		if a.IP.Is6() && a.IP.IsGlobalUnicast() {
			return a.IP
		}
	}
	return netip.Addr{}
}

// routerNeverListens are networks on which the router never listens
// (defaultRouterForbiddenCIDRs).
func routerNeverListens(a netip.Addr) bool {
	for _, network := range []string{"127.0.0.0/8", "169.254.0.0/16", "::1/128", "fe80::/10", "fd69::/125"} {
		if netip.MustParsePrefix(network).Contains(a) {
			return true
		}
	}
	return false
}

// routerAddresses are those on which the router listens now
// (pkg/loadbalancerservice/router.go): the given ones that the host has, and those
// of the given links.
func (h Host) routerAddresses(given []string, v4, v6 bool) []netip.Addr {
	var out []netip.Addr
	for _, a := range h.Addresses {
		link, found := h.linkByIndex(a.Link)
		// A link without a master of its own: others are OVN's.
		ours := v4 && a.IP.Is4() || v6 && a.IP.Is6()
		if !found || link.Master != 0 || routerNeverListens(a.IP) || !ours {
			continue
		}
		if len(given) == 0 || matchesListenAddress(given, a.IP, link.Name) {
			out = append(out, a.IP)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

func matchesListenAddress(given []string, addr netip.Addr, link string) bool {
	return slices.ContainsFunc(given, func(text string) bool {
		if a, err := netip.ParseAddr(text); err == nil {
			return a.Unmap() == addr
		}
		return text == link
	})
}

func (h Host) linkByName(name string) (Link, bool) {
	i := slices.IndexFunc(h.Links, func(l Link) bool { return l.Name == name })
	if i < 0 {
		return Link{}, false
	}
	return h.Links[i], true
}

func (h Host) linkByIndex(index uint32) (Link, bool) {
	i := slices.IndexFunc(h.Links, func(l Link) bool { return l.Index == index })
	if i < 0 {
		return Link{}, false
	}
	return h.Links[i], true
}
