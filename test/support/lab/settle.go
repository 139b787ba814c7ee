// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"net/netip"
)

// Settled waits until every VIP has exactly one holder, the one that keepalived
// prefers among those whose keepalived runs and whose link is up: the ingress
// VIPs the worker, and the API VIPs a master, which is the same one for both
// families unless the layout keeps them apart.
func (l *Lab) Settled(ctx context.Context) error {
	return Eventually(ctx, "the VIPs on their nodes", func(ctx context.Context) error {
		ingress := l.IngressHolder()
		if ingress == nil || l.Preferred(l.API.first()) == nil {
			return final(errors.New("keepalived runs on no master"))
		}
		return l.checkPlacement(ctx, func(vip netip.Addr) Candidate { return l.Preferred(vip) }, ingress, l.connected())
	})
}

// vrrp are the control-plane nodes that run keepalived.
func (l *Lab) vrrp() []*Master {
	if l.layout.NoVIPs {
		return nil
	}
	all := l.Masters
	if l.Arbiter != nil {
		all = append(all[:len(all):len(all)], l.Arbiter)
	}
	return all
}

// Preferred is the master that holds an API VIP when all is quiet; nil when
// there is none.
func (l *Lab) Preferred(vip netip.Addr) *Node {
	return l.lowestRanked(func(m *Master) int { return l.rank(m.Index, vip) })
}

// IngressHolder is the node that holds the ingress VIPs when all is quiet.
func (l *Lab) IngressHolder() *Node {
	if l.Worker != nil {
		return l.Worker.Node
	}
	// One VIP for both is wherever the API's instance has it.
	if l.layout.SharedVIP {
		return l.lowestRanked(func(m *Master) int { return m.Index })
	}
	return l.lowestRanked(func(m *Master) int { return l.ingressRank(m.Index) })
}

// lowestRanked is the master of the least rank among those that can hold a VIP.
func (l *Lab) lowestRanked(rank func(*Master) int) *Node {
	var best *Master
	for _, m := range l.Masters {
		if m.running() && !m.unplugged.Load() && (best == nil || rank(m) < rank(best)) {
			best = m
		}
	}
	if best == nil {
		return nil
	}
	return best.Node
}

// connected are the nodes that may hold a VIP; a master whose cable is out does
// not count.
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
