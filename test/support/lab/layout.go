// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"net/netip"
)

// Layout describes the difference of a topology from the default: three control-plane
// nodes, a worker with the router, one VIP of each kind and family, and unicast keepalived
// on br-ex.
type Layout struct {
	ControlPlaneNodes int  // 1 to 3; 0 means 3
	Arbiter           bool // an additional node without the API
	Compact           bool // no worker: every control-plane node runs a router

	Families      Families
	VIPs          int  // of each kind and family, each with its own instance; 0 means 1
	SplitFamilies bool // keepalived prefers another node for the IPv6 API VIPs
	SharedVIP     bool // the ingress VIPs are the API VIPs
	NoVIPs        bool // no keepalived and no VIP
	IngressOn     int  // with Compact: the node that keepalived prefers for the ingress

	Link      Link // of the control-plane nodes, with the VIPs
	VMAC      bool // keepalived adds the API VIPs to its own macvlan
	Multicast bool // keepalived finds its peers by multicast
}

// Families selects the address families of the whole lab.
type Families int

// The first instance in keepalived.conf, and the first entry in the install-config's lists, are
// of the first family.
const (
	DualStack Families = iota
	DualStackV6First
	IPv4Only
	IPv6Only
)

// With selects another topology.
func With(y Layout) Option {
	return func(l *Lab) {
		l.Topology = y.topology()
		l.has.controlPlaneNodes, l.has.link = y.controlPlaneNodes(), y.Link
		l.has.arbiter, l.has.compact = y.Arbiter, y.Compact
	}
}

func (y Layout) controlPlaneNodes() int {
	if y.ControlPlaneNodes == 0 {
		return ControlPlaneNodes
	}
	return y.ControlPlaneNodes
}

// topology returns the default topology with the changes of the layout.
func (y Layout) topology() Topology {
	t := defaultTopology()
	t.layout = y
	if y.SharedVIP {
		t.Ingress = t.API
	}
	for k := 1; k < y.VIPs; k++ {
		t.MoreAPI = append(t.MoreAPI, machine(100+2*k))
		t.MoreIngress = append(t.MoreIngress, machine(101+2*k))
	}
	switch y.Families {
	case IPv4Only:
		t.each(func(p *Pair) { p.V6 = netip.Addr{} })
	case IPv6Only:
		t.each(func(p *Pair) { p.V4 = netip.Addr{} })
	case DualStack, DualStackV6First:
	}
	return t
}

// each calls change for every pair of addresses of a topology.
func (t *Topology) each(change func(*Pair)) {
	for _, p := range []*Pair{
		&t.API, &t.Ingress, &t.Outside, &t.gateway, &t.internetGateway, &t.internet,
		&t.worker, &t.arbiter, &t.egress, &t.egressOutside,
	} {
		change(p)
	}
	for _, list := range [][]Pair{t.MoreAPI, t.MoreIngress, t.controlPlane[:], t.podGateways[:], t.pods[:]} {
		for i := range list {
			change(&list[i])
		}
	}
}

// AllAPI returns every API VIP.
func (t Topology) AllAPI() []netip.Addr { return flat(t.API, t.MoreAPI) }

// AllIngress returns every ingress VIP.
func (t Topology) AllIngress() []netip.Addr { return flat(t.Ingress, t.MoreIngress) }

func flat(first Pair, more []Pair) []netip.Addr {
	all := first.Both()
	for _, p := range more {
		all = append(all, p.Both()...)
	}
	return all
}

// order returns a pair's addresses in the order of their instances in keepalived.conf.
func (t Topology) order(p Pair) []netip.Addr {
	all := p.Both()
	if t.layout.Families == DualStackV6First {
		all[0], all[1] = all[1], all[0]
	}
	return all
}

// rank returns the rank of a control-plane node for an API VIP. keepalived prefers rank 0.
func (t Topology) rank(master int, vip netip.Addr) int {
	if t.layout.SplitFamilies && vip.Is6() {
		n := t.layout.controlPlaneNodes()
		return (master + n - 1) % n
	}
	return master
}

// ingressRank returns the rank of a control-plane node for the ingress VIPs.
func (t Topology) ingressRank(master int) int {
	n := t.layout.controlPlaneNodes()
	return (master - t.layout.IngressOn + n) % n
}
