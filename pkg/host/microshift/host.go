// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
)

const (
	ovnBridge = "br-ex" // of OVN-Kubernetes
	loopback  = "lo"
)

// IsInternalLink reports whether MicroShift assigns its internal addresses to a link of this
// name: lo, or br-ex if OVN-Kubernetes created it (addServiceIPLoopback of
// pkg/node/netconfig.go).
func IsInternalLink(link string) bool { return link == loopback || link == ovnBridge }

// Host holds the properties of a host that MicroShift examines.
type Host struct {
	Links     []address.Link
	Addresses []address.Address // in the kernel's order
	// The links of the default routes, in the order of the main routing table.
	DefaultLinks4, DefaultLinks6 []uint32
}

// NewHost returns the Host with these links, addresses and links of the default routes. An address that
// another host uses (DADFailed) is not the host's.
func NewHost(links []address.Link, addresses []address.Address, default4, default6 []uint32) Host {
	used := slices.DeleteFunc(slices.Clone(addresses), func(a address.Address) bool { return a.DADFailed })
	return Host{Links: links, Addresses: used, DefaultLinks4: default4, DefaultLinks6: default6}
}

// nodeAddress returns the address that MicroShift detects if none is configured. It is an
// address on the link of a default route, IPv4 first (ChooseHostInterface of
// k8s.io/apimachinery). Without a default route, it is the first address of the links in the
// order of their creation (selectIPFromHostInterface). At boot the route appears before the
// address, and MicroShift starts after both: an address of another link would be wrong then.
// certain means that an address on lo cannot change the result.
func (h Host) nodeAddress() (addr netip.Addr, certain bool) {
	certain = true
	for _, family := range []struct {
		is     func(netip.Addr) bool
		routes []uint32
	}{{netip.Addr.Is4, h.DefaultLinks4}, {netip.Addr.Is6, h.DefaultLinks6}} {
		for _, index := range family.routes {
			if link, found := h.findLink(index); !found || !link.Up {
				continue
			}
			if a := h.globalAddress(index, family.is); a.IsValid() {
				return a, certain
			}
			certain = false // MicroShift looks for one on lo
		}
	}
	if len(h.DefaultLinks4)+len(h.DefaultLinks6) > 0 {
		return netip.Addr{}, false
	}
	return h.firstAddress(), false
}

func (h Host) firstAddress() netip.Addr {
	links := slices.Clone(h.Links)
	slices.SortFunc(links, func(a, b address.Link) int { return cmp.Compare(a.Index, b.Index) })
	for _, l := range links {
		if l.Name == ovnBridge {
			continue
		}
		for _, a := range h.Addresses {
			// MicroShift would use a link-local address, but does not work with it.
			if a.Link == l.Index && !a.IP.IsLoopback() && !a.IP.IsLinkLocalUnicast() {
				return a.IP
			}
		}
	}
	return netip.Addr{}
}

// withoutAddresses returns the host without addresses that MicroShift or this service assigns
// to it. They are never the node's address.
func (h Host) withoutAddresses(own []netip.Addr) Host {
	h.Addresses = slices.DeleteFunc(slices.Clone(h.Addresses), func(a address.Address) bool {
		return a.Bits == a.IP.BitLen() && slices.Contains(own, a.IP)
	})
	return h
}

func (h Host) globalAddress(link uint32, family func(netip.Addr) bool) netip.Addr {
	for _, a := range h.Addresses {
		if a.Link == link && family(a.IP) && a.IP.IsGlobalUnicast() {
			return a.IP
		}
	}
	return netip.Addr{}
}

// nodeAddressIPv6 returns the IPv6 address of the node in a dual stack. GetHostIPv6 examines
// the link of the default route first. With newer releases of its netlink library it does not
// find that route and uses the host's first address. If the two differ, only node.nodeIPv6 is
// reliable.
func (h Host) nodeAddressIPv6() netip.Addr {
	for _, index := range h.DefaultLinks6 {
		if a := h.globalAddress(index, netip.Addr.Is6); a.IsValid() {
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

// routerNeverListens reports whether an address is in a network on which the router never
// listens (defaultRouterForbiddenCIDRs).
func routerNeverListens(a netip.Addr) bool {
	for _, network := range []string{"127.0.0.0/8", "169.254.0.0/16", "::1/128", "fe80::/10", "fd69::/125"} {
		if netip.MustParsePrefix(network).Contains(a) {
			return true
		}
	}
	return false
}

// routerAddresses returns the addresses on which the router listens now
// (pkg/loadbalancerservice/router.go): the configured addresses that are on the host, and all
// addresses of the configured links.
func (h Host) routerAddresses(configured []string, v4, v6 bool) []netip.Addr {
	var out []netip.Addr
	for _, a := range h.Addresses {
		link, found := h.findLink(a.Link)
		// Links that are attached to another link belong to OVN.
		ours := v4 && a.IP.Is4() || v6 && a.IP.Is6()
		if !found || link.Master != 0 || routerNeverListens(a.IP) || !ours {
			continue
		}
		if len(configured) == 0 || matchesListenAddress(configured, a.IP, link.Name) {
			out = append(out, a.IP)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

func matchesListenAddress(configured []string, addr netip.Addr, link string) bool {
	return slices.ContainsFunc(configured, func(text string) bool {
		if a, err := netip.ParseAddr(text); err == nil {
			return a.Unmap() == addr
		}
		return text == link
	})
}

func (h Host) findLink(index uint32) (link address.Link, found bool) {
	i := slices.IndexFunc(h.Links, func(l address.Link) bool { return l.Index == index })
	if i < 0 {
		return address.Link{}, false
	}
	return h.Links[i], true
}
