// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
)

// reg is the register that all expressions use in turn, as nft does.
const reg = unix.NFT_REG_1

// addressTypeData encodes an address type as fib … type loads it: a u32 in host byte order
// (nft_fib_store_result of net/netfilter/nft_fib.c).
func addressTypeData(rtn uint32) []byte { return binaryutil.NativeEndian.PutUint32(rtn) }

// tableName is the name of the table in nft commands and messages.
const tableName = "table inet " + ruleset.Name

// tableRef identifies our table in a batch.
func tableRef(flags nftables.TableFlags) *nftables.Table {
	return &nftables.Table{Name: ruleset.Name, Family: nftables.TableFamilyINet, Flags: flags}
}

// encodeSet encodes: set api4 { type ipv4_addr; }.
func encodeSet(t *nftables.Table, s ruleset.Set) *nftables.Set {
	key := nftables.TypeIPAddr
	if s.Family == ruleset.IPv6 {
		key = nftables.TypeIP6Addr
	}
	return &nftables.Set{Table: t, Name: s.Name, KeyType: key, KeyByteOrder: binaryutil.BigEndian}
}

func encodeElements(addrs []netip.Addr) []nftables.SetElement {
	list := make([]nftables.SetElement, len(addrs))
	for i, a := range addrs {
		list[i] = nftables.SetElement{Key: a.AsSlice()}
	}
	return list
}

// encodeChain encodes: type nat hook prerouting priority -110; policy accept;.
func encodeChain(t *nftables.Table, c ruleset.Chain) (*nftables.Chain, error) {
	var hook *nftables.ChainHook
	switch c.Hook {
	case ruleset.Prerouting:
		hook = nftables.ChainHookPrerouting
	case ruleset.Output:
		hook = nftables.ChainHookOutput
	default:
		return nil, fmt.Errorf("encode chain %s: unknown hook %q", c.Name, c.Hook)
	}
	policy := nftables.ChainPolicyAccept
	return &nftables.Chain{
		Table:    t,
		Name:     c.Name,
		Type:     nftables.ChainTypeNAT,
		Hooknum:  hook,
		Priority: nftables.ChainPriorityRef(nftables.ChainPriority(c.Priority)),
		Policy:   &policy,
	}, nil
}

// encodeRule returns the expressions of a rule. They are the expressions that nft generates
// from the rule's line (nft --debug=netlink).
func encodeRule(r ruleset.Rule) ([]expr.Any, error) {
	switch r := r.(type) {
	case ruleset.Redirect:
		return redirectExprs(r), nil
	case ruleset.RejectDirect:
		return rejectDirectExprs(r), nil
	default:
		return nil, fmt.Errorf("encode a rule: unknown type %T", r)
	}
}

// redirectExprs encodes: ip daddr @api4 tcp dport 80 fib daddr type local counter dnat to
// :8888.
func redirectExprs(r ruleset.Redirect) []expr.Any {
	var (
		proto          byte   = unix.NFPROTO_IPV4
		offset, length uint32 = 16, 4 // destination address, RFC 791 section 3.1
	)
	if r.Family == ruleset.IPv6 {
		proto = unix.NFPROTO_IPV6
		offset, length = 24, 16 // RFC 8200 section 3
	}
	rule := []expr.Any{
		// meta nfproto ipv4 (nft adds it before a header match in an inet table)
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: reg},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: []byte{proto}},
		// ip daddr @api4
		&expr.Payload{DestRegister: reg, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: length},
		&expr.Lookup{SourceRegister: reg, SetName: r.Set()},
	}
	rule = append(rule, matchTCPDestination(r.From)...)
	rule = append(rule, countLocal()...)
	return append(rule, dnatExprs(r.To)...)
}

// countLocal encodes: fib daddr type local counter.
func countLocal() []expr.Any {
	return []expr.Any{
		// fib daddr type local
		&expr.Fib{Register: reg, FlagDADDR: true, ResultADDRTYPE: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: addressTypeData(unix.RTN_LOCAL)},
		// counter
		&expr.Counter{},
	}
}

// dnatExprs encodes: dnat to :8888. Only the port is specified, so the address does not change.
func dnatExprs(port uint16) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: reg, Data: binaryutil.BigEndian.PutUint16(port)},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_INET, RegProtoMin: reg, Specified: true},
	}
}

// rejectDirectExprs encodes: tcp dport 8888 fib daddr type local counter reject with tcp reset.
func rejectDirectExprs(r ruleset.RejectDirect) []expr.Any {
	rule := append(matchTCPDestination(r.Port), countLocal()...)
	// reject with tcp reset
	return append(rule, &expr.Reject{Type: unix.NFT_REJECT_TCP_RST})
}

// matchTCPDestination encodes: tcp dport 80.
func matchTCPDestination(port uint16) []expr.Any {
	return []expr.Any{
		// meta l4proto tcp (nft adds it before a transport header match)
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: []byte{unix.IPPROTO_TCP}},
		// tcp dport 80 (RFC 9293 section 3.1)
		&expr.Payload{DestRegister: reg, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: binaryutil.BigEndian.PutUint16(port)},
	}
}
