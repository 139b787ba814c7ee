// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// MicroShift's defaults (updateComputedValues).
const (
	defaultServiceNetworkIPv4 = "10.43.0.0/16"
	defaultServiceNetworkIPv6 = "fd02::/112"
)

// ErrNoNodeAddress means that the configuration sets no node address, and that no address of
// the host is suitable.
var ErrNoNodeAddress = errors.New("this host has no address that MicroShift would detect as the node's: " +
	"set node.nodeIP in MicroShift's configuration")

// Computed holds the values that MicroShift computes from its Config on a host.
type Computed struct {
	NodeIPs []netip.Addr // one, or one per family
	// Internal are the addresses at which the API server is reached from inside the cluster.
	// The first one is the address that the API server advertises. Packets to these addresses
	// must never be redirected.
	Internal              []netip.Addr
	AdvertiseAddressGiven bool // the first Internal address is configured, and MicroShift does not assign it to a link
	// MissingKey is the key of MicroShift's configuration without which MicroShift could detect an
	// internal address on lo as the node's when it starts; empty: it could not.
	MissingKey string
	Router     Router
}

// Router describes where MicroShift's router listens.
type Router struct {
	Removed     bool // no router is deployed
	Addresses   []netip.Addr
	HTTP, HTTPS uint16
}

// ListensOn reports whether the router serves HTTP on an address and port.
func (r Router) ListensOn(addr netip.Addr, port uint16) bool {
	return !r.Removed && r.HTTP == port && slices.Contains(r.Addresses, addr)
}

// Compute returns the values that MicroShift computes on host h.
func (c Config) Compute(h Host) (Computed, error) {
	out := Computed{AdvertiseAddressGiven: c.AdvertiseAddress.IsValid()}
	own, err := c.internalAddresses(c.ServiceNetwork)
	if err != nil {
		return out, err
	}
	if out.AdvertiseAddressGiven {
		own = own[1:] // the advertised address can be the node's address
	}
	base := h.withoutAddresses(append(own, DefaultInternalAddresses()...))
	node, certain := c.NodeIP, true
	if !node.IsValid() {
		node, certain = base.nodeAddress()
	}
	// Configured networks do not depend on the node's address, and they must be known even
	// without such an address.
	services := c.ServiceNetwork
	if len(services) == 0 && node.IsValid() {
		services = []netip.Prefix{defaultServiceNetwork(node)}
	}
	if out.Internal, err = c.internalAddresses(services); err != nil {
		return out, err
	}
	v4, v6 := c.addressFamilies(node)
	switch {
	case !certain:
		out.MissingKey = "node.nodeIP"
	case v4 && v6 && !c.NodeIPv6.IsValid():
		// MicroShift uses the host's first IPv6 address, and lo is listed first (GetHostIPv6).
		out.MissingKey = "node.nodeIPv6"
	}
	if !node.IsValid() {
		return out, ErrNoNodeAddress
	}
	out.NodeIPs = []netip.Addr{node}
	if v4 && v6 {
		other := c.NodeIPv6
		if !other.IsValid() {
			other = base.nodeAddressIPv6()
		}
		if other.IsValid() && other != node {
			out.NodeIPs = append(out.NodeIPs, other)
		}
	}
	out.Router = Router{Removed: c.Ingress.Removed, HTTP: c.Ingress.HTTP, HTTPS: c.Ingress.HTTPS}
	if !out.Router.Removed {
		out.Router.Addresses = h.routerAddresses(c.Ingress.ListenAddress, v4, v6)
	}
	return out, nil
}

// addressFamilies returns the families of the cluster network. Without a configured cluster
// network it is the node's family.
func (c Config) addressFamilies(node netip.Addr) (v4, v6 bool) {
	if len(c.ClusterNetwork) == 0 {
		return node.Is4(), node.Is6()
	}
	for _, n := range c.ClusterNetwork {
		v4, v6 = v4 || n.Addr().Is4(), v6 || n.Addr().Is6()
	}
	return v4, v6
}

func defaultServiceNetwork(node netip.Addr) netip.Prefix {
	if node.Is4() {
		return netip.MustParsePrefix(defaultServiceNetworkIPv4)
	}
	return netip.MustParsePrefix(defaultServiceNetworkIPv6)
}

// internalAddresses returns the addresses of the API server inside the cluster.
func (c Config) internalAddresses(services []netip.Prefix) ([]netip.Addr, error) {
	var out []netip.Addr
	if c.AdvertiseAddress.IsValid() {
		out = append(out, c.AdvertiseAddress)
	} else if len(services) > 0 {
		first, err := FirstAddressAfter(services[0])
		if err != nil {
			return nil, err
		}
		out = append(out, first)
	}
	if len(services) > 1 && len(c.ClusterNetwork) > 1 {
		second, err := FirstAddressAfter(services[1])
		if err != nil {
			return out, err
		}
		out = append(out, second)
	}
	return out, nil
}

// FirstAddressAfter returns the first address after a network. MicroShift uses the single
// address of the next network (firstIPFromNextSubnet).
func FirstAddressAfter(p netip.Prefix) (netip.Addr, error) {
	last := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(last)*8; bit++ {
		last[bit/8] |= 0x80 >> (bit % 8)
	}
	end, _ := netip.AddrFromSlice(last)
	next := end.Next()
	if !next.IsValid() {
		return netip.Addr{}, fmt.Errorf("no address follows network.serviceNetwork %v, "+
			"so MicroShift has no internal API address: configure another network or apiServer.advertiseAddress", p)
	}
	return next, nil
}

// DefaultInternalAddresses returns the internal addresses of a MicroShift with default
// networks, for hosts whose configuration is not known.
func DefaultInternalAddresses() []netip.Addr {
	var out []netip.Addr
	for _, network := range []string{defaultServiceNetworkIPv4, defaultServiceNetworkIPv6} {
		if a, err := FirstAddressAfter(netip.MustParsePrefix(network)); err == nil {
			out = append(out, a)
		}
	}
	return out
}

// ChallengePort is the port to which CAs connect (RFC 8555 section 8.3).
const ChallengePort = 80

// maxUpstreamPerFamily limits the router addresses that are used in each family. All of them
// reach the same router.
const maxUpstreamPerFamily = 4

// UpstreamAddresses returns the addresses at which the proxy connects to the router. The node's
// addresses come first. An internal address is used only if there is no other in its family.
func (c Computed) UpstreamAddresses() []netip.Addr {
	rank := func(a netip.Addr) int {
		switch {
		case slices.Contains(c.NodeIPs, a):
			return 0
		case slices.Contains(c.Internal, a):
			return 2
		default:
			return 1
		}
	}
	all := slices.Clone(c.Router.Addresses)
	slices.SortStableFunc(all, func(a, b netip.Addr) int { return rank(a) - rank(b) })
	var out []netip.Addr
	for _, a := range all {
		alike := 0
		for _, b := range out {
			if a.Is4() == b.Is4() {
				alike++
			}
		}
		if alike == 0 || alike < maxUpstreamPerFamily && rank(a) < 2 {
			out = append(out, a)
		}
	}
	return out
}
