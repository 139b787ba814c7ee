// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// What MicroShift takes where nothing is given (updateComputedValues).
const (
	defaultServiceNetworkIPv4 = "10.43.0.0/16"
	defaultServiceNetworkIPv6 = "fd02::/112"
)

// ErrNoNodeAddress says that the node's address is not given and the host has none
// that could be taken.
var ErrNoNodeAddress = errors.New("this host has no address that MicroShift would take for the node's: give node.nodeIP in MicroShift's configuration")

// Computed is what a Config comes to on a host.
type Computed struct {
	NodeIPs        []netip.Addr   // of the node: one, or one of each family
	ServiceNetwork []netip.Prefix // one, or one of each family
	ServiceIP      netip.Addr     // of the service "kubernetes"
	// Internal are the addresses by which the inside of the cluster reaches the API
	// server, the first of them the one that it advertises. Nothing may be led away
	// from them.
	Internal              []netip.Addr
	AdvertiseAddressGiven bool // the first of Internal was given, and MicroShift puts it nowhere
	// Mistaken are those of Internal that MicroShift would take for the node's own if
	// they were on lo when it starts, since its configuration does not give that.
	MisdetectedAsNodeIP []netip.Addr
	Router              Router // of the ingress
}

// Router is where MicroShift's router listens.
type Router struct {
	Removed     bool // there is none
	Addresses   []netip.Addr
	HTTP, HTTPS uint16
}

// ListensOn reports whether the router answers on an address and port by HTTP.
func (r Router) ListensOn(addr netip.Addr, port uint16) bool {
	return !r.Removed && r.HTTP == port && slices.Contains(r.Addresses, addr)
}

// Compute finds what MicroShift would find on this host.
func (c Config) Compute(h Host) (Computed, error) {
	out := Computed{AdvertiseAddressGiven: c.AdvertiseAddress.IsValid()}
	own, err := c.internalAddresses(c.ServiceNetwork)
	if err != nil {
		return out, err
	}
	if out.AdvertiseAddressGiven {
		own = own[1:] // which may well be the node's
	}
	bare := h.withoutAddresses(append(own, DefaultInternalAddresses()...))
	node := c.NodeIP
	if !node.IsValid() {
		node = bare.nodeAddress()
	}
	// What was given needs no address of the node, and what was given must be known
	// even where that has none.
	if out.ServiceNetwork = c.ServiceNetwork; len(out.ServiceNetwork) == 0 && node.IsValid() {
		out.ServiceNetwork = []netip.Prefix{defaultServiceNetwork(node)}
	}
	if out.Internal, err = c.internalAddresses(out.ServiceNetwork); err != nil {
		return out, err
	}
	if len(out.ServiceNetwork) > 0 {
		out.ServiceIP = out.ServiceNetwork[0].Addr().Next()
	}
	out.MisdetectedAsNodeIP = c.misdetected(bare, node, out.Internal)
	if !node.IsValid() {
		return out, ErrNoNodeAddress
	}
	out.NodeIPs = []netip.Addr{node}
	v4, v6 := c.addressFamilies(node)
	if v4 && v6 {
		other := c.NodeIPv6
		if !other.IsValid() {
			other = bare.nodeAddressIPv6()
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

// invalidValue finds the internal addresses that must not be on lo before MicroShift
// starts. In a dual stack it takes the host's first IPv6 address for the node's
// where none is given, and lo comes first (GetHostIPv6).
func (c Config) misdetected(bare Host, node netip.Addr, internal []netip.Addr) []netip.Addr {
	v4, v6 := c.addressFamilies(node)
	return slices.DeleteFunc(slices.Clone(internal), func(a netip.Addr) bool {
		asNode := !c.NodeIP.IsValid() && bare.withLoopbackAddress(a).nodeAddress() != node
		asOther := v4 && v6 && a.Is6() && !c.NodeIPv6.IsValid()
		return !asNode && !asOther
	})
}

// addressFamilies are those of the cluster network, which is of the node's family when it
// is not given.
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

// internalAddresses are the addresses of the API server inside the cluster.
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

// FirstAddressAfter is the first address behind a network: MicroShift takes the next network of
// a single address (firstIPFromNextSubnet).
func FirstAddressAfter(p netip.Prefix) (netip.Addr, error) {
	last := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(last)*8; bit++ {
		last[bit/8] |= 0x80 >> (bit % 8)
	}
	end, _ := netip.AddrFromSlice(last)
	next := end.Next()
	if !next.IsValid() {
		return netip.Addr{}, fmt.Errorf("there is no address behind network.serviceNetwork %v, where MicroShift's internal API address would be: give another network, or apiServer.advertiseAddress", p)
	}
	return next, nil
}

// DefaultInternalAddresses are the internal addresses of any MicroShift with the default networks,
// for where its configuration is not known.
func DefaultInternalAddresses() []netip.Addr {
	var out []netip.Addr
	for _, network := range []string{defaultServiceNetworkIPv4, defaultServiceNetworkIPv6} {
		if a, err := FirstAddressAfter(netip.MustParsePrefix(network)); err == nil {
			out = append(out, a)
		}
	}
	return out
}

// ChallengePort is the one that CAs ask, by RFC 8555 section 8.3.
const ChallengePort = 80

// maxUpstreamPerFamily is how many addresses of one family the router is asked at: they are
// all the same router.
const maxUpstreamPerFamily = 4

// UpstreamAddresses are the addresses at which the router is asked: the node's, where it
// listens on them, before others, and an internal one only for want of others.
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
