// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

import (
	"errors"

	"github.com/google/nftables"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
)

// trialTable is the table in which the kernel's support is tested. No other process sees it.
const trialTable = ruleset.Name + "-trial"

// requirements is the remediation for a kernel that rejects the trial as unknown.
const requirements = "use Linux 5.12 or a backport of the owner flag, " +
	"with the modules nf_tables, nft_chain_nat, nft_counter, nft_ct, nft_fib_inet, nft_nat and nft_reject_inet"

// tryTable adds the whole table under another name and deletes it in the same batch, so it leaves
// nothing in the kernel.
func (c *Conn) tryTable() error {
	return c.exchange(func(nft *nftables.Conn) error {
		table := tableRef(nftables.TableFlagOwner)
		table.Name = trialTable
		if err := addTable(nft, table, ruleset.New(1, nil)); err != nil {
			return err
		}
		nft.DelTable(table)
		return nft.Flush()
	})
}

// CheckSupport reports whether the kernel supports everything that the table requires. It leaves
// nothing in the kernel. The error is ErrUnsupported if a part is missing.
func CheckSupport() (err error) {
	c, err := Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return c.checkSupport()
}

// HasTable reports whether the table inet name of any program exists.
func HasTable(name string) (present bool, err error) {
	c, err := Open()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	t, err := c.getTableNamed(name)
	return t != nil, err
}

func (c *Conn) checkSupport() error {
	if err := c.tryTable(); err != nil {
		return c.explain("nftables cannot be used", err)
	}
	return nil
}
