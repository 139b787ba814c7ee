// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
)

// Option changes what New brings up.
type Option func(*Lab)

// WithoutMasters leaves the places of the masters, and of the pods on them, to
// hosts of the caller's. Each is to be plugged into Switch, with the addresses
// MasterAddresses, the default routes Gateway.Addresses, the DNS servers DNS and
// a keepalived that reads MasterKeepalived. New does not wait for the VIPs:
// SettledOn does, once the hosts are up. What is about Masters and Pods finds
// none.
func WithoutMasters() Option { return func(l *Lab) { l.has.masters = 0 } }

// WithEgress adds the node of the egress proxy, and the outside network that it
// and the worker alone are on: the router answers there on the addresses
// Outside, which no master has a route to.
func WithEgress() Option { return func(l *Lab) { l.has.egress = true } }

// Candidate is a host on the machine network that may hold a VIP.
type Candidate interface {
	// String is the host's name.
	String() string
	// Holds tells whether an address is on one of the host's links.
	Holds(ctx context.Context, address netip.Addr) (bool, error)
}

// Switch says where the machine network can be plugged into: a bridge, and the
// path of the network namespace that it is in.
func (l *Lab) Switch() (namespace, bridge string) {
	return netnsPath(l.Gateway.Namespace), machineBridge
}

// MasterAddresses are those of master i, the VIPs aside, with the prefix length
// of the machine network.
func (l *Lab) MasterAddresses(i int) []netip.Prefix {
	var all []netip.Prefix
	for _, a := range l.masters[i].Both() {
		all = append(all, onLink(a))
	}
	return all
}

// MasterKeepalived is the text of master i's keepalived.conf; link is the
// interface of the master that is on the machine network.
func (l *Lab) MasterKeepalived(i int, link string) (string, error) {
	text, err := RenderKeepalived(link, masterInstances(l.Topology, i))
	return string(text), err
}

// DNS are the servers, on port 53, that answer for the lab's names.
func (l *Lab) DNS() []netip.Addr { return []netip.Addr{l.Internet.Addresses.first()} }

// SettledOn waits until both API VIPs are on one master and on none of the
// others, and the ingress VIPs on the worker alone.
func (l *Lab) SettledOn(ctx context.Context, want Candidate, others ...Candidate) error {
	return Eventually(ctx, "the VIPs on their hosts", func(ctx context.Context) error {
		everyone := slices.Concat([]Candidate{want}, others, []Candidate{l.Worker.Node})
		return l.checkPlacement(ctx, func(netip.Addr) Candidate { return want }, l.Worker.Node, everyone)
	})
}

// checkPlacement returns an error unless each API VIP is on the host that api returns, alone,
// and the ingress VIPs on theirs.
func (l *Lab) checkPlacement(ctx context.Context, api func(netip.Addr) Candidate, ingress Candidate, everyone []Candidate) error {
	for _, vip := range l.AllAPI() {
		if err := heldOnlyBy(ctx, vip, api(vip), everyone); err != nil {
			return err
		}
	}
	for _, vip := range l.AllIngress() {
		if err := heldOnlyBy(ctx, vip, ingress, everyone); err != nil {
			return err
		}
	}
	return nil
}

func heldOnlyBy(ctx context.Context, vip netip.Addr, want Candidate, among []Candidate) error {
	var holders []Candidate
	for _, c := range among {
		held, err := c.Holds(ctx, vip)
		if err != nil {
			return err
		}
		if held {
			holders = append(holders, c)
		}
	}
	if len(holders) != 1 || holders[0] != want {
		return fmt.Errorf("%s is on %v, not on %v alone", vip, holders, want)
	}
	return nil
}
