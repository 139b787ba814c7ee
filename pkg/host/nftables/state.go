// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

import (
	"encoding/binary"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
)

// State is what the kernel holds under the table's name.
type State struct {
	Present bool
	Owned   bool   // by the Conn that was asked
	Owner   string // who owns it, in words; empty when nobody does

	OwnerPort uint32       // the netlink port of the owner; 0 when nobody owns it
	Port      uint16       // where it leads to; 0 when it leads nowhere
	VIPs      []netip.Addr // the elements of its sets, IPv4 first, sorted
	Counters  []Counter    // of the rules that count, in the order of the table
}

// NetlinkPort returns the port that owns the tables of this connection, or 0 while it is
// broken.
func (c *Conn) NetlinkPort() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sock == nil {
		return 0
	}
	return c.sock.port
}

// Counter is how often a rule applied since the table was built. The kernel
// counts packets; of a connection only the first one crosses a nat chain, so a
// redirect counts connections.
type Counter struct {
	Chain   string
	Rule    string // in the language of nft(8); empty for a rule that is not ours
	Packets uint64
	Bytes   uint64
}

// State reads the table from the kernel, whoever made it.
func (c *Conn) State() (State, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, err := c.readTable()
	if err != nil {
		return State{}, c.explain("read "+tableName, err)
	}
	if f == nil {
		return State{}, nil
	}
	s := State{Present: true, Owned: f.table.Owner == c.sock.port, OwnerPort: f.table.Owner, Port: f.port(), VIPs: f.vips()}
	if f.table.Owner != 0 {
		s.Owner = describeOwner(f.table.Owner)
	}
	s.Counters = f.counters(ruleset.New(s.Port, s.VIPs))
	return s, nil
}

// port is where the first dnat leads to.
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

// dnatPort finds the number that was loaded for the rule's dnat.
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

// counters reads the counters of the rules and names the rules after those of
// the given table that they are.
func (f *kernelTable) counters(named ruleset.Table) []Counter {
	lines := map[string][]ruleset.Rule{}
	for _, c := range named.Chains() {
		lines[c.Name] = c.Rules
	}
	var list []Counter
	for _, c := range f.chains {
		for i, r := range c.rules {
			n := counterOf(r)
			if n == nil {
				continue
			}
			counter := Counter{Chain: c.chain.Name, Packets: n.Packets, Bytes: n.Bytes}
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
