// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"net/netip"
	"slices"
)

// ControlPlaneNodes is the default number of control-plane nodes.
const ControlPlaneNodes = 3

// uplink is the interface with a node's address and the VIPs, as OVN-Kubernetes names it.
const uplink = "br-ex"

// Pair is one address of each family.
type Pair struct {
	V4, V6 netip.Addr
}

// Both returns the valid addresses, IPv4 first.
func (p Pair) Both() []netip.Addr {
	return slices.DeleteFunc([]netip.Addr{p.V4, p.V6}, func(a netip.Addr) bool { return !a.IsValid() })
}

// first returns the IPv4 address, or without one the IPv6 address.
func (p Pair) first() netip.Addr { return p.Both()[0] }

// Like returns the address of the same family.
func (p Pair) Like(a netip.Addr) netip.Addr {
	if a.Is4() {
		return p.V4
	}
	return p.V6
}

// Topology holds the addresses of a lab. The IPv4 networks come from RFC 5737 (documentation);
// the IPv6 networks are unique local (RFC 4193).
type Topology struct {
	Cluster string // the cluster's name in keepalived's instance names
	Domain  string // domain of the lab's DNS

	API     Pair // API VIPs, on one of the control-plane nodes
	Ingress Pair // ingress VIPs, on the worker

	MoreAPI     []Pair // additional API VIPs
	MoreIngress []Pair // as many additional ingress VIPs

	Outside Pair // the router's addresses on the outside network, WithEgress

	layout          Layout
	gateway         Pair // of the machine network
	internetGateway Pair
	internet        Pair // the CA, its DNS and its validators
	worker          Pair
	arbiter         Pair
	egress          Pair // on the machine network
	egressOutside   Pair
	controlPlane    [ControlPlaneNodes]Pair
	podGateways     [ControlPlaneNodes]Pair // the control-plane nodes' addresses in the pod networks
	pods            [ControlPlaneNodes]Pair // one pod on each control-plane node
}

// defaultTopology returns the default addresses. Labs run in separate namespaces, so several
// can use the same addresses.
func defaultTopology() Topology {
	t := Topology{
		Cluster:         "lab",
		Domain:          "lab.test",
		API:             machine(5),
		Ingress:         machine(6),
		Outside:         outside(6),
		gateway:         machine(1),
		worker:          machine(21),
		arbiter:         machine(14),
		egress:          machine(31),
		egressOutside:   outside(2),
		internet:        internet(10),
		internetGateway: internet(1),
	}
	for i := range ControlPlaneNodes {
		t.controlPlane[i] = machine(11 + i)
		t.podGateways[i] = pods(i, 1)
		t.pods[i] = pods(i, 2)
	}
	return t
}

func machine(host int) Pair { return pair("192.0.2.%d", "fd4e:5f2a:9c01:1::%d", host) }

func internet(host int) Pair { return pair("198.51.100.%d", "fd4e:5f2a:9c01:2::%d", host) }

func outside(host int) Pair { return pair("203.0.113.%d", "fd4e:5f2a:9c01:3::%d", host) }

func pods(master, host int) Pair { return pair("10.128.%d.%d", "fd4e:5f2a:9c01:8%d::%d", master, host) }

// pair formats an address of each family with the numbers.
func pair(v4, v6 string, numbers ...any) Pair {
	return Pair{V4: netip.MustParseAddr(fmt.Sprintf(v4, numbers...)), V6: netip.MustParseAddr(fmt.Sprintf(v6, numbers...))}
}

// onLink returns an address with the prefix length of its network.
func onLink(a netip.Addr) netip.Prefix {
	if a.Is4() {
		return netip.PrefixFrom(a, 24)
	}
	return netip.PrefixFrom(a, 64)
}
