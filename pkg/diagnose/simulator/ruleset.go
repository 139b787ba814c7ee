// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulator

import "fmt"

// Family is a table's family, with the numbers of the kernel (NFPROTO_…,
// linux/netfilter.h).
type Family uint8

// The families whose chains handle packets to an address of this host.
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

// Hook is a netfilter hook, with the numbers of the kernel (NF_INET_…).
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

// Table identifies one table.
type Table struct {
	Family Family
	Name   string
}

// String is the table as nft takes it after "list table".
func (t Table) String() string { return t.Family.String() + " " + t.Name }

// Chain is one chain. Only base chains have a hook.
type Chain struct {
	Table      Table
	Name       string
	IsBase     bool
	Type       string // of a base chain: filter, nat or route
	Hook       Hook
	Priority   int32
	PolicyDrop bool // its policy is drop
}

// String is the chain as nft takes it after "list chain".
func (c Chain) String() string { return c.Table.String() + " " + c.Name }

// Rule is one rule of a chain.
type Rule struct {
	Handle      uint64
	expressions []expression
}

// expression is an expression as the kernel encodes it.
type expression struct {
	name string
	data []byte // netlink attributes
}

// set is a set or a map, named or anonymous.
type set struct {
	fieldLengths []int // lengths of the fields of a concatenation, if they are compared separately
	interval     bool
	elements     []element
}

// element is an element of a set. In a set of intervals it is a start, or with
// intervalEnd an exclusive end. In a concatenation it has both.
type element struct {
	key, keyEnd []byte
	intervalEnd bool
	catchAll    bool
	conditional bool // it has a condition of its own, such as a rate
	data        []byte
	verdict     *verdict
}

// Ruleset is the source of rules. Its methods are called only for the chains and sets
// that a packet reaches, because a node has thousands of rules.
type Ruleset interface {
	// BaseChains lists the base chains.
	BaseChains() []Chain
	// isAnonymous reports whether a chain is the block of a single rule (jump { … }). nft
	// cannot list it by name.
	isAnonymous(t Table, chain string) bool
	// chainRules are the rules of a chain, in order.
	chainRules(t Table, chain string) ([]Rule, error)
	// namedSet is a set of a table by name.
	namedSet(t Table, name string) (set, error)
}
