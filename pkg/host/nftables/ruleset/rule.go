// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"fmt"
	"net/netip"
)

// Family is the address family of a set or a rule.
type Family uint8

// Address families.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// Set is a named set of VIPs of one family.
type Set struct {
	Name     string
	Family   Family
	Elements []netip.Addr // sorted, without duplicates
}

// Hook is the hook of a base chain in nft syntax.
type Hook string

// Hooks of the table's chains.
const (
	Prerouting Hook = "prerouting"
	Output     Hook = "output"
)

// Chain is a base chain of type nat whose policy is accept. The kernel shows such a chain only the
// first packet of a connection, and none that an earlier chain has translated (nf_nat_inet_fn in
// net/netfilter/nf_nat_core.c). So later packets of the Kubernetes API and etcd pass no rule of ours.
type Chain struct {
	Name     string
	Hook     Hook
	Priority int32
	Rules    []Rule
}

// Rule is one of Redirect and RejectDirect. String returns it in nft(8) syntax.
type Rule interface {
	fmt.Stringer
	rule()
}

// Redirect redirects new connections to a VIP of its family from one port to another port of
// the same address. It matches the destination address and no link, because pods and hosts
// arrive through different links. It also requires that the address is local (fib), so an
// element that remains after its VIP moved does no harm.
//
// It is a dnat without an address. A redirect would choose the first address of the link on
// which a packet arrived (net/netfilter/nf_nat_redirect.c), and the loopback address for
// packets of the host itself.
type Redirect struct {
	Family   Family
	From, To uint16
}

// RejectDirect rejects new connections to the port itself, at a local address: connections to
// the same port of a pod pass these hooks too. It does not match connections that are older than
// the table. The kernel can reject in prerouting since Linux 5.9.
type RejectDirect struct{ Port uint16 }

func (Redirect) rule()     {}
func (RejectDirect) rule() {}

func (r Redirect) String() string {
	set, header, _ := r.Family.names()
	return fmt.Sprintf("%s daddr @%s tcp dport %d fib daddr type local counter dnat to :%d", header, set, r.From, r.To)
}

// Set returns the name of the set whose addresses the rule matches.
func (r Redirect) Set() string {
	set, _, _ := r.Family.names()
	return set
}

func (r RejectDirect) String() string {
	return fmt.Sprintf("tcp dport %d fib daddr type local counter reject with tcp reset", r.Port)
}

// names returns the set of the VIPs, nft's keyword for the network header, and nft's type
// of the addresses.
func (f Family) names() (set, header, element string) {
	if f == IPv4 {
		return "api4", "ip", "ipv4_addr"
	}
	return "api6", "ip6", "ipv6_addr"
}
