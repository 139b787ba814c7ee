// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"net/netip"
)

// Layout is how one topology of a cluster differs from the lab's own; the zero
// value is the lab's own: three masters, a worker with the router, one VIP of
// each kind and family, unicast keepalived on br-ex.
type Layout struct {
	Masters int  // 1 to 3; 0 means 3
	Arbiter bool // one more control-plane node, which takes no part in the API
	Compact bool // no worker: every master has a router

	Families      Families
	VIPs          int  // of each kind and family, each an instance of its own; 0 means 1
	SplitFamilies bool // keepalived prefers another master for the IPv6 API VIPs
	SharedVIP     bool // the ingress VIPs are the API VIPs
	NoVIPs        bool // no keepalived and no VIP
	IngressOn     int  // with Compact: the master that keepalived prefers for the ingress

	Link      Link // of the masters, which carries the VIPs
	VMAC      bool // keepalived puts the API VIPs onto a macvlan of its own
	Multicast bool // keepalived finds its peers by multicast
}

// Families are those that the whole lab has addresses of.
type Families int

// The first family is the one of the first instance in keepalived.conf, as of
// the first entry of the install-config's lists.
const (
	DualStack Families = iota
	DualStackV6First
	IPv4Only
	IPv6Only
)

// With brings up another topology than the lab's own.
func With(y Layout) Option {
	return func(l *Lab) {
		l.Topology = y.topology()
		l.has.masters, l.has.arbiter, l.has.compact, l.has.link = y.masters(), y.Arbiter, y.Compact, y.Link
	}
}

func (y Layout) masters() int {
	if y.Masters == 0 {
		return Masters
	}
	return y.Masters
}

// check refuses what no lab can be.
func (y Layout) check() error {
	switch {
	case y.Masters < 0 || y.Masters > Masters:
		return fmt.Errorf("a lab has 1 to %d masters, not %d", Masters, y.Masters)
	case y.IngressOn < 0 || y.IngressOn >= y.masters():
		return fmt.Errorf("there is no master %d for the ingress", y.IngressOn)
	case y.VIPs < 0 || y.VIPs > maxVIPs:
		return fmt.Errorf("a lab has at most %d VIPs of a kind and family, not %d", maxVIPs, y.VIPs)
	case y.Arbiter && y.Multicast:
		// machine-config-operator, templates/arbiter/00-arbiter: it leaves the
		// API to the API servers by the list of the peers.
		return errors.New("without unicast an arbiter takes part in the API VIPs too, which this lab's does not")
	case y.Link != LinkPlain && y.VMAC:
		return errors.New("use_vmac is for a plain link here")
	}
	return nil
}

// maxVIPs keeps the VRRP router ids of API and ingress apart.
const maxVIPs = 8

// topology is the default one, changed as the layout says.
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

// each changes every pair of addresses of a topology.
func (t *Topology) each(change func(*Pair)) {
	for _, p := range []*Pair{
		&t.API, &t.Ingress, &t.Outside, &t.gateway, &t.internetGateway, &t.internet,
		&t.worker, &t.arbiter, &t.egress, &t.egressOutside,
	} {
		change(p)
	}
	for _, list := range [][]Pair{t.MoreAPI, t.MoreIngress, t.masters[:], t.podGateways[:], t.pods[:]} {
		for i := range list {
			change(&list[i])
		}
	}
}

// AllAPI lists every API VIP.
func (t Topology) AllAPI() []netip.Addr { return flat(t.API, t.MoreAPI) }

// AllIngress lists every ingress VIP.
func (t Topology) AllIngress() []netip.Addr { return flat(t.Ingress, t.MoreIngress) }

func flat(first Pair, more []Pair) []netip.Addr {
	all := first.Both()
	for _, p := range more {
		all = append(all, p.Both()...)
	}
	return all
}

// order is a pair's addresses in the order in which keepalived.conf has their
// instances.
func (t Topology) order(p Pair) []netip.Addr {
	all := p.Both()
	if t.layout.Families == DualStackV6First {
		all[0], all[1] = all[1], all[0]
	}
	return all
}

// rank says how much keepalived prefers a master for an API VIP: 0 is the one
// that holds it when all is quiet.
func (t Topology) rank(master int, vip netip.Addr) int {
	if t.layout.SplitFamilies && vip.Is6() {
		n := t.layout.masters()
		return (master + n - 1) % n
	}
	return master
}

// ingressRank is rank for the ingress VIPs, among the masters.
func (t Topology) ingressRank(master int) int {
	n := t.layout.masters()
	return (master - t.layout.IngressOn + n) % n
}
