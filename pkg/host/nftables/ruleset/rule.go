// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"fmt"
	"net/netip"
)

// Family is the address family of a set or a rule.
type Family uint8

// The two address families.
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

// ChainType is the type of a base chain, in nft's words.
type ChainType string

// The types of the table's chains.
const (
	NAT    ChainType = "nat"
	Filter ChainType = "filter"
)

// Hook is where a base chain is attached, in nft's words.
type Hook string

// The hooks of the table's chains.
const (
	Prerouting Hook = "prerouting"
	Output     Hook = "output"
	Input      Hook = "input"
)

// Chain is a base chain whose policy is accept.
type Chain struct {
	Name     string
	Type     ChainType
	Hook     Hook
	Priority int32
	Rules    []Rule
}

// Rule is one of Redirect, AcceptRedirected and RejectDirect. String is its
// line in the language of nft(8).
type Rule interface {
	fmt.Stringer
	rule()
}

// Redirect leads new connections to a VIP of its family from one port to
// another one of the same address. It matches the destination address and no
// link, since pods arrive through another one than hosts do; and it asks the
// routing table whether the address is local, so that an element that outlived
// its VIP catches nothing.
//
// It is a dnat without an address because a redirect would pick the first
// address of the link a packet came through (net/netfilter/nf_nat_redirect.c),
// and the loopback address for packets of the host itself.
type Redirect struct {
	Family   Family
	From, To uint16
}

// AcceptRedirected lets connections in that a Redirect led here.
type AcceptRedirected struct{ Port uint16 }

// RejectDirect refuses connections that were made to the port itself. It looks
// at the original direction only: a connection of the host that happens to use
// the port as its source gets its answers to that port as well.
type RejectDirect struct{ Port uint16 }

func (Redirect) rule()         {}
func (AcceptRedirected) rule() {}
func (RejectDirect) rule()     {}

func (r Redirect) String() string {
	return fmt.Sprintf("%s daddr @%s tcp dport %d fib daddr type local counter dnat to :%d",
		headerKeyword(r.Family), r.Set(), r.From, r.To)
}

// Set is the name of the set whose addresses the rule matches.
func (r Redirect) Set() string { return setName(r.Family) }

func (r AcceptRedirected) String() string {
	return fmt.Sprintf("ct direction original tcp dport %d ct status dnat accept", r.Port)
}

func (r RejectDirect) String() string {
	return fmt.Sprintf("ct direction original tcp dport %d counter reject with tcp reset", r.Port)
}

func setName(f Family) string {
	if f == IPv4 {
		return "api4"
	}
	return "api6"
}

// headerKeyword is nft's keyword for the network header of the family.
func headerKeyword(f Family) string {
	if f == IPv4 {
		return "ip"
	}
	return "ip6"
}
