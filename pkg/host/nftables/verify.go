// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
)

// Verify reads the table and compares it with the one that was applied last, or expects no
// table if none was applied or it was removed. ErrDiffers lists the differences and makes the
// next Apply rebuild the whole table. Any other error means that the query of the kernel
// failed.
func (c *Conn) Verify() error {
	got, err := c.readTable()
	if err != nil {
		return c.explain("verify "+tableName, err)
	}
	if differences := c.compare(got); len(differences) > 0 {
		c.applied = false
		return fmt.Errorf("%w: %w", ErrDiffers, errors.Join(differences...))
	}
	return nil
}

func (c *Conn) compare(got *kernelTable) []error {
	none := ruleset.Table{}
	switch {
	case c.desired == none && got == nil:
		return nil
	case c.desired == none:
		return []error{errors.New("a table exists although none was applied")}
	case got == nil:
		return []error{errors.New("the table does not exist")}
	}
	var diff differences
	table := got.table
	owner := c.sock.port
	if c.flags&nftables.TableFlagOwner == 0 {
		owner = 0
	}
	diff.check(table.Owner == owner, "its owner is port ID %d, not %d", table.Owner, owner)
	diff.check(table.Flags == c.flags, "its flags are %#x, not %#x", uint32(table.Flags), uint32(c.flags))
	sets, chains := c.desired.Sets(), c.desired.Chains()
	// Sets, chains and all other objects of a table count as uses.
	diff.check(int(table.Use) == len(sets)+len(chains), "it contains %d sets, chains and objects, not %d",
		table.Use, len(sets)+len(chains))
	for _, s := range sets {
		diff.checkSet(s, got)
	}
	for _, ch := range chains {
		diff.checkChain(ch, got)
	}
	return diff
}

type differences []error

func (d *differences) check(ok bool, format string, args ...any) {
	if !ok {
		*d = append(*d, fmt.Errorf(format, args...))
	}
}

func (d *differences) checkSet(want ruleset.Set, got *kernelTable) {
	i := slices.IndexFunc(got.sets, func(s kernelSet) bool { return s.set.Name == want.Name })
	if i < 0 {
		d.check(false, "set %s is missing", want.Name)
		return
	}
	s := got.sets[i]
	key := encodeSet(got.table, want).KeyType
	d.check(s.set.KeyType.Name == key.Name, "set %s has type %s, not %s", want.Name, s.set.KeyType.Name, key.Name)
	d.check(slices.Equal(s.elements, want.Elements), "set %s contains %v, not %v", want.Name, s.elements, want.Elements)
}

func (d *differences) checkChain(want ruleset.Chain, got *kernelTable) {
	i := slices.IndexFunc(got.chains, func(c kernelChain) bool { return c.chain.Name == want.Name })
	if i < 0 {
		d.check(false, "chain %s is missing", want.Name)
		return
	}
	chain, rules := got.chains[i].chain, got.chains[i].rules
	expected, err := encodeChain(got.table, want)
	if err != nil {
		d.check(false, "%w", err)
		return
	}
	d.check(chain.Type == expected.Type, "chain %s has type %s, not %s", want.Name, chain.Type, expected.Type)
	d.check(equalPointees(chain.Hooknum, expected.Hooknum), "chain %s has another hook", want.Name)
	d.check(equalPointees(chain.Priority, expected.Priority), "chain %s has another priority than %d",
		want.Name, want.Priority)
	d.check(equalPointees(chain.Policy, expected.Policy), "chain %s has another policy than accept", want.Name)
	if len(rules) != len(want.Rules) {
		d.check(false, "chain %s has %d rules, not %d", want.Name, len(rules), len(want.Rules))
		return
	}
	for i, r := range want.Rules {
		d.check(ruleMatches(rules[i], r), "rule %d of chain %s differs from: %s", i+1, want.Name, r)
	}
}

func equalPointees[T comparable](a, b *T) bool { return a != nil && b != nil && *a == *b }

func ruleMatches(got *nftables.Rule, want ruleset.Rule) bool {
	exprs, err := encodeRule(want)
	if err != nil || len(exprs) != len(got.Exprs) {
		return false
	}
	for i := range exprs {
		a, errA := marshalWithoutState(exprs[i])
		b, errB := marshalWithoutState(got.Exprs[i])
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			return false
		}
	}
	return true
}

// marshalWithoutState encodes an expression as the kernel dumps it, without its state:
// counters depend on the traffic, and the ID of a set is valid for one batch only. The kernel
// also dumps the end of a port range if only its start was given (nft_nat_dump).
func marshalWithoutState(e expr.Any) ([]byte, error) {
	switch x := e.(type) {
	case *expr.Counter:
		e = &expr.Counter{}
	case *expr.Lookup:
		l := *x
		l.SetID = 0
		e = &l
	case *expr.NAT:
		n := *x
		if n.RegProtoMax == 0 {
			n.RegProtoMax = n.RegProtoMin
		}
		e = &n
	}
	return expr.Marshal(byte(nftables.TableFamilyINet), e)
}
