// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

import (
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
)

// feature is a part of nf_tables that the table requires.
type feature struct {
	name string // includes what provides it
	add  func(*nftables.Conn, *nftables.Table)
}

// features are ordered so that each one depends only on those before it.
func features() []feature {
	rule := func(c ruleset.Chain, exprs ...expr.Any) func(*nftables.Conn, *nftables.Table) {
		return func(nft *nftables.Conn, t *nftables.Table) {
			chain, err := encodeChain(t, c)
			if err != nil {
				return
			}
			nft.AddChain(chain)
			if len(exprs) > 0 {
				nft.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: exprs})
			}
		}
	}
	set := func(f ruleset.Family) func(*nftables.Conn, *nftables.Table) {
		return func(nft *nftables.Conn, t *nftables.Table) {
			_ = nft.AddSet(encodeSet(t, ruleset.Set{Name: "probe", Family: f}), nil) // never fails without elements
		}
	}
	filter := ruleset.Chain{Name: "probe", Type: ruleset.Filter, Hook: ruleset.Input}
	nat := ruleset.Chain{Name: "probe", Type: ruleset.NAT, Hook: ruleset.Prerouting, Priority: -110}
	return []feature{
		{
			"nf_tables with the inet family (CONFIG_NF_TABLES, CONFIG_NF_TABLES_INET; modprobe nf_tables)",
			func(*nftables.Conn, *nftables.Table) {},
		},
		{
			"the owner flag of tables, which requires Linux 5.12 or a backport",
			func(nft *nftables.Conn, t *nftables.Table) {
				owned := *t
				owned.Name += "-owned"
				owned.Flags = nftables.TableFlagOwner
				nft.AddTable(&owned)
				nft.DelTable(&owned)
			},
		},
		{"sets of addresses", set(ruleset.IPv6)},
		{"filter chains in an inet table", rule(filter)},
		{"nat chains in an inet table, which require Linux 5.2 and modprobe nft_chain_nat", rule(nat)},
		{"the counter expression (modprobe nft_counter)", rule(filter, &expr.Counter{})},
		{"the ct expression (modprobe nft_ct)", rule(filter, &expr.Ct{Key: expr.CtKeyDIRECTION, Register: reg})},
		{
			"the fib expression (modprobe nft_fib_inet)",
			rule(filter, &expr.Fib{Register: reg, FlagDADDR: true, ResultADDRTYPE: true}),
		},
		{
			"the nat expression in an inet table (modprobe nft_nat)",
			rule(nat, tail(redirectExprs(ruleset.Redirect{Family: ruleset.IPv4, From: 80, To: 8888}), 2)...),
		},
		{
			"the reject expression in an inet table (modprobe nft_reject_inet)",
			rule(filter, append(matchTCPDestination(8888), &expr.Reject{Type: unix.NFT_REJECT_TCP_RST})...),
		},
	}
}

func tail(exprs []expr.Any, n int) []expr.Any { return exprs[len(exprs)-n:] }

// missingFeature tests the features one by one. It returns the name of the first one that the
// kernel rejects as unknown, or "" if the kernel accepts all of them or does not answer. Each
// test adds a table and deletes it in the same batch, so it leaves nothing in the kernel.
func (c *Conn) missingFeature() string {
	for _, p := range features() {
		err := c.exchange(func(nft *nftables.Conn) error {
			t := &nftables.Table{Name: ruleset.Name + "-probe", Family: nftables.TableFamilyINet}
			nft.AddTable(t)
			p.add(nft, t)
			nft.DelTable(t)
			return nft.Flush()
		})
		switch {
		case err == nil:
		case isUnsupported(err):
			return p.name
		default:
			return ""
		}
	}
	return ""
}
