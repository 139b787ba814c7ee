// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"net/netip"
	"slices"
)

// controlPlaneInstances returns the instances of one control-plane node: API and ingress for each
// VIP, numbered in the order of the families as runtimecfg does.
func controlPlaneInstances(t Topology, index int) []VRRPInstance {
	var out []VRRPInstance
	apis, ingresses := t.apiVIPs(), t.ingressVIPs()
	for i, vip := range apis {
		out = append(out, apiInstance(t, index, i, vip), ingressInstance(t, controlPlaneIngressPriority(t, index),
			t.controlPlane[index], i, ingresses[i]))
	}
	return out
}

// workerInstances returns the worker's instances, for the ingress VIPs.
func workerInstances(t Topology) []VRRPInstance {
	return ingressInstances(t, workerIngress, t.worker)
}

// arbiterInstances returns the arbiter's instances: the ingress VIPs with the lowest priority.
// An arbiter runs no API server and takes no part in the API VIPs while keepalived uses unicast
// (machine-config-operator, templates/arbiter/00-arbiter).
func arbiterInstances(t Topology) []VRRPInstance {
	return ingressInstances(t, arbiterIngress, t.arbiter)
}

func ingressInstances(t Topology, priority int, own Pair) []VRRPInstance {
	var out []VRRPInstance
	for i, vip := range t.ingressVIPs() {
		out = append(out, ingressInstance(t, priority, own, i, vip))
	}
	return out
}

// numberedVIP is a VIP with its number in its family.
type numberedVIP struct {
	netip.Addr

	number int
}

func (t Topology) apiVIPs() []numberedVIP { return t.numbered(t.API, t.MoreAPI) }

func (t Topology) ingressVIPs() []numberedVIP { return t.numbered(t.Ingress, t.MoreIngress) }

func (t Topology) numbered(first Pair, more []Pair) []numberedVIP {
	var out []numberedVIP
	for number, p := range slices.Concat([]Pair{first}, more) {
		for _, a := range t.order(p) {
			out = append(out, numberedVIP{a, number})
		}
	}
	return out
}

func controlPlaneIngressPriority(t Topology, index int) int {
	if t.layout.Compact {
		return workerIngress - t.ingressRank(index)
	}
	return controlPlaneIngress
}

func apiInstance(t Topology, index, i int, vip numberedVIP) VRRPInstance {
	own := t.controlPlane[index].Like(vip.Addr)
	v := VRRPInstance{
		Name:     fmt.Sprintf("%s_API_%d", t.Cluster, i),
		RouterID: apiRouterID + 2*vip.number,
		Priority: apiPriority - t.rank(index, vip.Addr),
		Source:   own,
		Peers:    t.others(own),
		VIP:      vip.Addr,
		Password: t.Cluster + "_api_vip",
	}
	if t.layout.VMAC {
		v.VMAC = fmt.Sprintf("vrrp%d.%d", v.RouterID, familyNumber(vip.Addr))
	}
	return v
}

func ingressInstance(t Topology, priority int, own Pair, i int, vip numberedVIP) VRRPInstance {
	address := own.Like(vip.Addr)
	peers := t.others(address)
	for _, p := range t.withoutAPI() {
		if a := p.Like(vip.Addr); a != address && !t.layout.Multicast {
			peers = append(peers, a)
		}
	}
	return VRRPInstance{
		Name:     fmt.Sprintf("%s_INGRESS_%d", t.Cluster, i),
		RouterID: ingressRouterID + 2*vip.number,
		Priority: priority,
		Source:   address,
		Peers:    peers,
		VIP:      vip.Addr,
		Password: t.Cluster + "_ingress_vip",
	}
}

// others returns the addresses of the other control-plane nodes in a family, or none with
// multicast.
func (t Topology) others(own netip.Addr) []netip.Addr {
	if t.layout.Multicast {
		return nil
	}
	var out []netip.Addr
	for _, m := range t.controlPlane[:t.layout.controlPlaneNodes()] {
		if a := m.Like(own); a != own {
			out = append(out, a)
		}
	}
	return out
}

// withoutAPI returns the nodes that take part in the ingress VIPs only.
func (t Topology) withoutAPI() []Pair {
	var out []Pair
	if !t.layout.Compact {
		out = append(out, t.worker)
	}
	if t.layout.Arbiter {
		out = append(out, t.arbiter)
	}
	return out
}

func familyNumber(a netip.Addr) int {
	if a.Is4() {
		return 4
	}
	return 6
}
