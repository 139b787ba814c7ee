// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
)

// maxReads limits how often the table is read again because a ruleset of the host changed
// meanwhile.
const maxReads = 8

var errRulesetChanging = errors.New("the host's nftables ruleset kept changing while it was read")

type kernelTable struct {
	table  *nftables.Table
	sets   []kernelSet
	chains []kernelChain
}

type kernelSet struct {
	set      *nftables.Set
	elements []netip.Addr // sorted
}

type kernelChain struct {
	chain *nftables.Chain
	rules []*nftables.Rule
}

// readTable returns a consistent copy of the table, or nil without a table. The kernel
// returns it in several messages. They are consistent if no ruleset changed between the first
// and the last one.
func (c *Conn) readTable() (*kernelTable, error) {
	for range maxReads {
		if t, err := c.getTable(); t == nil || err != nil {
			return nil, err
		}
		before, err := c.generation()
		if err != nil {
			return nil, err
		}
		f, err := c.readOnce()
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINTR) {
			return nil, err
		}
		after, genErr := c.generation()
		if genErr != nil {
			return nil, genErr
		}
		if before == after {
			return f, err
		}
	}
	return nil, errRulesetChanging
}

// generation returns the number that increases with each batch of any process.
func (c *Conn) generation() (id uint32, err error) {
	err = c.exchange(func(nft *nftables.Conn) error {
		gen, err := nft.GetGen()
		if err != nil {
			return fmt.Errorf("read the ruleset's generation: %w", err)
		}
		id = gen.ID
		return nil
	})
	return id, err
}

func (c *Conn) readOnce() (*kernelTable, error) {
	t, err := c.getTable()
	if t == nil || err != nil {
		return nil, err
	}
	f := &kernelTable{table: t}
	err = c.exchange(func(nft *nftables.Conn) error {
		if f.sets, err = readSets(nft, t); err != nil {
			return err
		}
		f.chains, err = readChains(nft, t)
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

func readSets(nft *nftables.Conn, t *nftables.Table) ([]kernelSet, error) {
	sets, err := nft.GetSets(t)
	if err != nil {
		return nil, fmt.Errorf("read the sets of table inet %s: %w", t.Name, err)
	}
	list := make([]kernelSet, 0, len(sets))
	for _, s := range sets {
		elements, err := nft.GetSetElements(s)
		if err != nil {
			return nil, fmt.Errorf("read set %s of table inet %s: %w", s.Name, t.Name, err)
		}
		fs := kernelSet{set: s}
		for _, e := range elements {
			if a, ok := netip.AddrFromSlice(e.Key); ok {
				fs.elements = append(fs.elements, a)
			}
		}
		slices.SortFunc(fs.elements, netip.Addr.Compare)
		list = append(list, fs)
	}
	return list, nil
}

// readChains reads the chains by our names. A list of all chains of the family would be long
// on a node with many services. The table's use count reveals other chains.
func readChains(nft *nftables.Conn, t *nftables.Table) ([]kernelChain, error) {
	var list []kernelChain
	for _, want := range (ruleset.Table{}).Chains() {
		chain, err := nft.ListChain(t, want.Name)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read chain %s of table inet %s: %w", want.Name, t.Name, err)
		}
		rules, err := nft.GetRules(t, chain)
		if err != nil {
			return nil, fmt.Errorf("read the rules of chain %s of table inet %s: %w", want.Name, t.Name, err)
		}
		list = append(list, kernelChain{chain: chain, rules: rules})
	}
	return list, nil
}
