// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"net/netip"
	"slices"
)

// Masters is how many masters a lab has.
const Masters = 3

// uplink is the interface of a cluster node that carries its address and the
// VIPs, named as OVN-Kubernetes names it on a real node.
const uplink = "br-ex"

// Pair is one address of each family.
type Pair struct {
	V4, V6 netip.Addr
}

// Both lists the IPv4 address and the IPv6 address, in that order; without the
// one that is not valid, in a lab of one family.
func (p Pair) Both() []netip.Addr {
	return slices.DeleteFunc([]netip.Addr{p.V4, p.V6}, func(a netip.Addr) bool { return !a.IsValid() })
}

// first is the IPv4 address, or the IPv6 address where there is no other.
func (p Pair) first() netip.Addr { return p.Both()[0] }

// Like is the address of the same family.
func (p Pair) Like(a netip.Addr) netip.Addr {
	if a.Is4() {
		return p.V4
	}
	return p.V6
}

// Topology says who is where. The IPv4 networks are those that RFC 5737 sets
// aside for documentation, the IPv6 networks are unique local (RFC 4193).
type Topology struct {
	Cluster string // the cluster's name, as in the instance names of keepalived
	Domain  string // below which the lab's DNS answers

	API     Pair // the VIP of the API, on one of the masters
	Ingress Pair // the VIP of the ingress, on the worker

	MoreAPI     []Pair // further API VIPs
	MoreIngress []Pair // and ingress VIPs, as many

	Outside Pair // where the router answers on the outside network, WithEgress

	layout          Layout
	gateway         Pair // of the machine network
	internetGateway Pair
	internet        Pair // the CA, its DNS and its validators
	worker          Pair
	arbiter         Pair
	egress          Pair // on the machine network
	egressOutside   Pair
	masters         [Masters]Pair
	podGateways     [Masters]Pair // the masters' ends of the pod networks
	pods            [Masters]Pair // one pod on each master
}

// defaultTopology is the lab's own: labs differ by their namespaces, so that
// several can have the same addresses side by side.
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
	for i := range Masters {
		t.masters[i] = machine(11 + i)
		t.podGateways[i] = pods(i, 1)
		t.pods[i] = pods(i, 2)
	}
	return t
}

func machine(host int) Pair { return pair("192.0.2.%d", "fd4e:5f2a:9c01:1::%d", host) }

func internet(host int) Pair { return pair("198.51.100.%d", "fd4e:5f2a:9c01:2::%d", host) }

func outside(host int) Pair { return pair("203.0.113.%d", "fd4e:5f2a:9c01:3::%d", host) }

func pods(master, host int) Pair { return pair("10.128.%d.%d", "fd4e:5f2a:9c01:8%d::%d", master, host) }

// pair fills numbers into an address of each family.
func pair(v4, v6 string, numbers ...any) Pair {
	return Pair{V4: netip.MustParseAddr(fmt.Sprintf(v4, numbers...)), V6: netip.MustParseAddr(fmt.Sprintf(v6, numbers...))}
}

// onLink is an address with the prefix length of the network that it is in.
func onLink(a netip.Addr) netip.Prefix {
	if a.Is4() {
		return netip.PrefixFrom(a, 24)
	}
	return netip.PrefixFrom(a, 64)
}
