// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
)

const (
	ovnBridge = "br-ex" // of OVN-Kubernetes
	loopback  = "lo"
)

// IsInternalLink reports whether MicroShift assigns its internal addresses to a link of this
// name: lo, or br-ex if OVN-Kubernetes has created it (addServiceIPLoopback of
// pkg/node/netconfig.go).
func IsInternalLink(link string) bool { return link == loopback || link == ovnBridge }

// Host holds the properties of a host that MicroShift examines.
type Host struct {
	Links     []address.Link
	Addresses []address.Address // in the kernel's order
	// The links of the default routes, in the order of the main routing table.
	DefaultLinks4, DefaultLinks6 []string
}

// NewHost returns the Host with these links and addresses. procNet is /proc/net, for the default routes.
// An address that another host uses (DADFailed) is not the host's.
func NewHost(links []address.Link, addresses []address.Address, procNet string) (Host, error) {
	h := Host{Links: links}
	h.Addresses = slices.DeleteFunc(slices.Clone(addresses), func(a address.Address) bool { return a.DADFailed })
	var err error
	h.DefaultLinks4, h.DefaultLinks6, err = DefaultRouteLinks(procNet)
	return h, err
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
		routes []string
	}{{netip.Addr.Is4, h.DefaultLinks4}, {netip.Addr.Is6, h.DefaultLinks6}} {
		for _, name := range family.routes {
			link, found := h.linkByName(name)
			if !found || !link.Up {
				continue
			}
			if a := h.globalAddress(name, family.is); a.IsValid() {
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

// nodeAddressIPv6 returns the IPv6 address of the node in a dual stack. GetHostIPv6 examines
// the link of the default route first. With newer releases of its netlink library it does not
// find that route and uses the host's first address. If the two differ, only node.nodeIPv6 is
// reliable.
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
// (pkg/loadbalancerservice/router.go): the configured addresses that the host has, and all
// addresses of the configured links.
func (h Host) routerAddresses(configured []string, v4, v6 bool) []netip.Addr {
	var out []netip.Addr
	for _, a := range h.Addresses {
		link, found := h.findLink(func(l address.Link) bool { return l.Index == a.Link })
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

func (h Host) linkByName(name string) (address.Link, bool) {
	return h.findLink(func(l address.Link) bool { return l.Name == name })
}

func (h Host) findLink(is func(address.Link) bool) (link address.Link, found bool) {
	i := slices.IndexFunc(h.Links, is)
	if i < 0 {
		return address.Link{}, false
	}
	return h.Links[i], true
}

// maxRouteBytes limits how much of a routing table is read. In the IPv4 table the default
// routes come first.
const maxRouteBytes = 1 << 20

// DefaultRouteLinks returns the links of the default routes of both families, as the kernel
// lists them in dir (/proc/net). If the kernel lacks a family, its list is empty. As in
// k8s.io/apimachinery the mask is ignored, so a route to 0.0.0.0/1, which VPNs add, counts as
// well.
func DefaultRouteLinks(dir string) (v4, v6 []string, err error) {
	v4, err4 := readDefaultLinks(filepath.Join(dir, "route"), func(f []string) (string, bool) {
		if len(f) < 8 || f[1] != zeros(8) {
			return "", false
		}
		return f[0], true
	})
	v6, err6 := readDefaultLinks(filepath.Join(dir, "ipv6_route"), func(f []string) (string, bool) {
		// A route without a gateway is the kernel's own entry for unreachable destinations.
		if len(f) < 10 || f[0] != zeros(32) || f[4] == zeros(32) {
			return "", false
		}
		return f[9], true
	})
	return v4, v6, errors.Join(err4, err6)
}

func zeros(n int) string { return strings.Repeat("0", n) }

func readDefaultLinks(path string, is func(fields []string) (link string, ok bool)) (links []string, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the default routes: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := bufio.NewScanner(io.LimitReader(f, maxRouteBytes))
	for lines.Scan() {
		if link, ok := is(strings.Fields(lines.Text())); ok && !slices.Contains(links, link) {
			links = append(links, link)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the default routes: %s: %w", path, err)
	}
	return links, nil
}
