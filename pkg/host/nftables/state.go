// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

import (
	"encoding/binary"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// State is the kernel's table of our name.
type State struct {
	Present   bool
	OwnerPort uint32       // netlink port ID of the owner; 0 without an owner
	Port      uint16       // to which connections are redirected; 0 if there is no redirect
	VIPs      []netip.Addr // the elements of its sets, IPv4 first, sorted
	// Counters are the counters of the rules, in the order of the table, since it was built.
	// The kernel counts packets. Only the first packet of a connection passes a nat chain, so a
	// redirect counts connections. The text of an unknown rule is empty.
	Counters []report.Counter
}

// NetlinkPort returns the port ID of the socket that owns the table, or 0 after a socket error.
func (c *Conn) NetlinkPort() uint32 {
	if c.sock == nil {
		return 0
	}
	return c.sock.port
}

// State reads the table from the kernel, also if another process installed it.
func (c *Conn) State() (State, error) {
	t, err := c.readTable()
	if err != nil {
		return State{}, c.explain("read "+tableName, err)
	}
	if t == nil {
		return State{}, nil
	}
	s := State{Present: true, OwnerPort: t.table.Owner, Port: t.port(), VIPs: t.vips()}
	s.Counters = t.counters(ruleset.New(s.Port, s.VIPs))
	return s, nil
}

func (f *kernelTable) port() uint16 {
	for _, c := range f.chains {
		for _, r := range c.rules {
			if p := dnatPort(r); p != 0 {
				return p
			}
		}
	}
	return 0
}

// dnatPort returns the value that is loaded for the rule's dnat.
func dnatPort(r *nftables.Rule) uint16 {
	loaded := map[uint32][]byte{}
	for _, e := range r.Exprs {
		switch e := e.(type) {
		case *expr.Immediate:
			loaded[e.Register] = e.Data
		case *expr.NAT:
			if data := loaded[e.RegProtoMin]; e.Type == expr.NATTypeDestNAT && len(data) >= 2 {
				return binary.BigEndian.Uint16(data)
			}
		}
	}
	return 0
}

func (f *kernelTable) vips() []netip.Addr {
	var list []netip.Addr
	for _, s := range f.sets {
		list = append(list, s.elements...)
	}
	return ruleset.New(0, list).VIPs()
}

// counters returns the rules' counters. It names each rule that equals the rule at the same
// position in expected.
func (f *kernelTable) counters(expected ruleset.Table) []report.Counter {
	lines := map[string][]ruleset.Rule{}
	for _, c := range expected.Chains() {
		lines[c.Name] = c.Rules
	}
	var list []report.Counter
	for _, c := range f.chains {
		for i, r := range c.rules {
			n := counterOf(r)
			if n == nil {
				continue
			}
			counter := report.Counter{Chain: c.chain.Name, Packets: n.Packets, Bytes: n.Bytes}
			if rules := lines[c.chain.Name]; i < len(rules) && ruleMatches(r, rules[i]) {
				counter.Rule = rules[i].String()
			}
			list = append(list, counter)
		}
	}
	return list
}

func counterOf(r *nftables.Rule) *expr.Counter {
	for _, e := range r.Exprs {
		if n, ok := e.(*expr.Counter); ok {
			return n
		}
	}
	return nil
}
