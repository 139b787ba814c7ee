// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulator

import "fmt"

// Family is a table's, with the numbers of the kernel (NFPROTO_…, linux/netfilter.h).
type Family uint8

// The families whose chains see what is sent to an address of this host.
const (
	INet Family = 1
	IPv4 Family = 2
	IPv6 Family = 10
)

// String is the family as nft writes it.
func (f Family) String() string {
	switch f {
	case INet:
		return "inet"
	case IPv4:
		return "ip"
	case IPv6:
		return "ip6"
	default:
		return fmt.Sprintf("family %d", uint8(f))
	}
}

// Hook is a place of the packet's way, with the numbers of the kernel (NF_INET_…).
type Hook uint32

// The hooks.
const (
	Prerouting Hook = 0
	Input      Hook = 1
	Output     Hook = 3
)

// String is the hook as nft writes it.
func (h Hook) String() string {
	switch h {
	case Prerouting:
		return "prerouting"
	case Input:
		return "input"
	case Output:
		return "output"
	default:
		return fmt.Sprintf("hook %d", uint32(h))
	}
}

// OwnTable is one table's name.
type Table struct {
	Family Family
	Name   string
}

// String is the table as nft takes it after "list table".
func (t Table) String() string { return t.Family.String() + " " + t.Name }

// Chain is one chain. Those that are not base chains have no hook.
type Chain struct {
	Table      Table
	Name       string
	IsBase     bool
	Type       string // of a base chain: filter, nat or route
	Hook       Hook
	Priority   int32
	PolicyDrop bool // its policy
}

// String is the chain as nft takes it after "list chain".
func (c Chain) String() string { return c.Table.String() + " " + c.Name }

// Rule is one rule of a chain.
type Rule struct {
	Handle      uint64
	expressions []expression
}

// expression is one as the kernel has it.
type expression struct {
	name string
	data []byte // netlink attributes
}

// namedSet is a set or a map, anonymous ones included.
type set struct {
	fieldLengths []int // lengths of a concatenation's parts, if they are compared one by one
	interval     bool
	elements     []element
}

// element is one of a set. Those of a set of intervals are a beginning, or with
// last an end that is not part of it; those of a concatenation have both.
type element struct {
	key, keyEnd []byte
	intervalEnd bool
	catchAll    bool
	conditional bool // it has a condition of its own, such as a rate
	data        []byte
	verdict     *verdict
}

// Ruleset is where rules come from. Its methods are called for what a packet
// meets, since a node has many thousand rules.
type Ruleset interface {
	// Chains lists the base chains.
	BaseChains() []Chain
	// rules are those of a chain of a table, in order.
	chainRules(t Table, chain string) ([]Rule, error)
	// set is a set of a table by name.
	namedSet(t Table, name string) (set, error)
}
