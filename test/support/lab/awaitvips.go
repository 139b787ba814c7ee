// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"net/netip"
)

// AwaitVIPs waits until exactly one node holds every VIP, which keepalived prefers among nodes
// with a running keepalived and a connected link. The ingress VIPs are on the worker. The API
// VIPs are on one control-plane node, unless the layout splits the families.
func (l *Lab) AwaitVIPs(ctx context.Context) error {
	return Eventually(ctx, "the VIPs on their nodes", func(ctx context.Context) error {
		ingress := l.IngressHolder()
		if ingress == nil || l.Preferred(l.API.first()) == nil {
			return final(errors.New("keepalived is running on no control-plane node"))
		}
		return l.checkPlacement(ctx, func(vip netip.Addr) Candidate { return l.Preferred(vip) }, ingress, l.connected())
	})
}

// vrrp returns the control-plane nodes that run keepalived.
func (l *Lab) vrrp() []*ControlPlaneNode {
	if l.layout.NoVIPs {
		return nil
	}
	all := l.ControlPlane
	if l.Arbiter != nil {
		all = append(all[:len(all):len(all)], l.Arbiter)
	}
	return all
}

// Preferred returns the control-plane node that keepalived prefers for an API VIP, or nil.
func (l *Lab) Preferred(vip netip.Addr) *Node {
	return l.lowestRanked(func(m *ControlPlaneNode) int { return l.rank(m.Index, vip) })
}

// IngressHolder returns the node that keepalived prefers for the ingress VIPs.
func (l *Lab) IngressHolder() *Node {
	if l.Worker != nil {
		return l.Worker.Node
	}
	// A shared VIP follows the instance of the API.
	if l.layout.SharedVIP {
		return l.lowestRanked(func(m *ControlPlaneNode) int { return m.Index })
	}
	return l.lowestRanked(func(m *ControlPlaneNode) int { return l.ingressRank(m.Index) })
}

// lowestRanked returns the control-plane node of the lowest rank among those that can hold
// a VIP.
func (l *Lab) lowestRanked(rank func(*ControlPlaneNode) int) *Node {
	var best *ControlPlaneNode
	for _, m := range l.ControlPlane {
		if m.running() && !m.unplugged.Load() && (best == nil || rank(m) < rank(best)) {
			best = m
		}
	}
	if best == nil {
		return nil
	}
	return best.Node
}

// connected returns the nodes that can hold a VIP, without disconnected ones.
func (l *Lab) connected() []Candidate {
	var all []Candidate
	for _, m := range l.vrrp() {
		if !m.unplugged.Load() {
			all = append(all, m.Node)
		}
	}
	if l.Worker != nil {
		all = append(all, l.Worker.Node)
	}
	return all
}
