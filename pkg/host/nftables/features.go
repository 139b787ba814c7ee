// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

import (
	"errors"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
)

type feature struct {
	name string // includes what provides it
	add  func(*nftables.Conn, *nftables.Table)
}

// featureTable is the table in which features are tested. No other process sees it.
const featureTable = ruleset.Name + "-feature"

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
			_ = nft.AddSet(encodeSet(t, ruleset.Set{Name: "feature", Family: f}), nil) // never fails without elements
		}
	}
	filter := ruleset.Chain{Name: "feature", Type: ruleset.Filter, Hook: ruleset.Input}
	nat := ruleset.Chain{Name: "feature", Type: ruleset.NAT, Hook: ruleset.Prerouting, Priority: -110}
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
		{"the ct expression (modprobe nft_ct)", rule(filter, ctDirection())},
		{"the fib expression (modprobe nft_fib_inet)", rule(filter, fibDestinationType())},
		{"the nat expression in an inet table (modprobe nft_nat)", rule(nat, dnatExprs(8888)...)},
		{"the reject expression in an inet table (modprobe nft_reject_inet)", rule(filter, append(matchTCPDestination(8888), rejectWithReset())...)},
	}
}

// missingFeature tests the features one by one. It returns the name of the first one that the
// kernel rejects as unknown, or "" if the kernel accepts all of them or does not answer. Each
// test adds a table and deletes it in the same batch, so it leaves nothing in the kernel.
func (c *Conn) missingFeature() string {
	for _, f := range features() {
		err := c.exchange(func(nft *nftables.Conn) error {
			t := &nftables.Table{Name: featureTable, Family: nftables.TableFamilyINet}
			nft.AddTable(t)
			f.add(nft, t)
			nft.DelTable(t)
			return nft.Flush()
		})
		switch {
		case err == nil:
		case isUnsupported(err):
			return f.name
		default:
			return ""
		}
	}
	return ""
}

// CheckSupport reports whether the kernel supports everything that the table requires. It
// leaves nothing in the kernel: each feature is deleted in the batch that adds it. The error
// is ErrUnavailable and names the missing feature or the reason why it could not be tested.
func CheckSupport() (err error) {
	c, err := Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return c.checkSupport()
}

func (c *Conn) checkSupport() error {
	const action = "nftables cannot be used"
	if missing := c.missingFeature(); missing != "" {
		return &unavailableError{action: action, kind: ErrUnsupported, remediation: "the kernel lacks " + missing}
	}
	if _, err := c.getTable(); err != nil {
		return c.explain(action, err)
	}
	return nil
}
