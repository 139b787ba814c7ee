// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Option changes what New brings up.
type Option func(*Lab)

// WithoutControlPlane omits the control-plane nodes and their pods. The caller's hosts take
// their place. Each connects to Switch with the addresses ControlPlaneAddresses, the default
// routes Gateway.Addresses, the DNS servers DNS, and a keepalived with ControlPlaneKeepalived.
// New does not wait for the VIPs; AwaitVIPsOn does. ControlPlane and Pods are empty.
func WithoutControlPlane() Option { return func(l *Lab) { l.has.controlPlaneNodes = 0 } }

// WithEgress adds the node of the egress proxy and the outside network, on which only it and
// the worker are. The router answers there on the addresses Outside, which no control-plane
// node can reach.
func WithEgress() Option { return func(l *Lab) { l.has.egress = true } }

// WithCertificateLifetime sets the lifetime of the certificates that the CA issues. The
// default is 90 days.
func WithCertificateLifetime(lifetime time.Duration) Option {
	return func(l *Lab) { l.has.certificateLifetime = lifetime }
}

// Candidate is a host on the machine network that can hold a VIP.
type Candidate interface {
	// String returns the host's name.
	String() string
	// Holds reports whether an address is on one of the host's links.
	Holds(ctx context.Context, address netip.Addr) (bool, error)
}

// Switch returns the bridge of the machine network and the path of its network namespace.
func (l *Lab) Switch() (namespace, bridge string) {
	return netnsPath(l.Gateway.Namespace), machineBridge
}

// ControlPlaneAddresses returns the addresses of control-plane node i without VIPs, with the
// prefix length of the machine network.
func (l *Lab) ControlPlaneAddresses(i int) []netip.Prefix {
	var all []netip.Prefix
	for _, a := range l.controlPlane[i].Both() {
		all = append(all, onLink(a))
	}
	return all
}

// ControlPlaneKeepalived returns the keepalived.conf of control-plane node i; link is its
// interface on the machine network.
func (l *Lab) ControlPlaneKeepalived(i int, link string) (string, error) {
	text, err := RenderKeepalived(link, controlPlaneInstances(l.Topology, i))
	return string(text), err
}

// DNS returns the DNS servers for the lab's names.
func (l *Lab) DNS() []netip.Addr { return []netip.Addr{l.Internet.Addresses.first()} }

// AwaitVIPsOn waits until the API VIPs are only on one host and the ingress VIPs only on the
// worker.
func (l *Lab) AwaitVIPsOn(ctx context.Context, want Candidate, others ...Candidate) error {
	return Eventually(ctx, "the VIPs on their hosts", func(ctx context.Context) error {
		everyone := slices.Concat([]Candidate{want}, others, []Candidate{l.Worker.Node})
		return l.checkPlacement(ctx, func(netip.Addr) Candidate { return want }, l.Worker.Node, everyone)
	})
}

// checkPlacement returns an error unless each API VIP is only on the host that api returns,
// and the ingress VIPs are only on theirs.
func (l *Lab) checkPlacement(ctx context.Context, api func(netip.Addr) Candidate, ingress Candidate,
	everyone []Candidate,
) error {
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
