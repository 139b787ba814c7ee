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

// maxRebuilds limits how often a rebuild is repeated because another process added or removed
// a table of the same name in the meantime.
const maxRebuilds = 3

// Apply makes t the kernel's table in one atomic batch. It sends nothing if the kernel already
// holds t, and only set elements if only the VIPs differ. Otherwise, after an error, and after
// a Verify that found a difference, it sends the whole table. A leftover table of the same name
// without an owner is replaced.
//
// After every netlink error the kernel's table is read again and compared with t: a batch whose
// reply was lost may have been committed. An error means that the kernel may not hold t.
func (c *Conn) Apply(t ruleset.Table) error {
	if t.Port() == 0 {
		return errors.New("apply " + tableName + ": no port to redirect to")
	}
	if c.applied && c.desired == t {
		return nil
	}
	from, sameRules := c.desired, c.applied && c.desired.Port() == t.Port()
	c.desired, c.applied = t, false
	if sameRules {
		err := c.exchange(func(nft *nftables.Conn) error { return updateElements(nft, from, t) })
		if c.applied = c.confirmed(err); c.applied {
			return nil
		}
		// The owner flag keeps other processes from changing the table, so this kernel lost it.
		// A rebuild does not depend on the current content.
	}
	err := c.rebuild(t)
	if c.applied = c.confirmed(err); !c.applied {
		return c.explain("install "+tableName, err)
	}
	return nil
}

// confirmed reports whether the kernel holds the desired table after a batch with the result err. After
// an error it reads the table and compares it.
func (c *Conn) confirmed(err error) bool {
	if err == nil {
		return true
	}
	got, readErr := c.readTable()
	return readErr == nil && len(c.compare(got)) == 0
}

func updateElements(nft *nftables.Conn, from, to ruleset.Table) error {
	table := tableRef(0)
	old := from.Sets()
	for i, s := range to.Sets() {
		set := encodeSet(table, s)
		removed, added := difference(old[i].Elements, s.Elements), difference(s.Elements, old[i].Elements)
		err := errors.Join(
			// delete element inet http01-proxyd api4 { … }
			nft.SetDeleteElements(set, encodeElements(removed)),
			// add element inet http01-proxyd api4 { … }
			nft.SetAddElements(set, encodeElements(added)),
		)
		if err != nil {
			return err
		}
	}
	return nft.Flush()
}

func difference(a, b []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(a), func(x netip.Addr) bool { return slices.Contains(b, x) })
}

// rebuild replaces any table of our name. It checks first whether there is one: adding a
// table that exists fails if the flags differ (nf_tables_updtable), and deleting a table that
// does not exist fails as well.
func (c *Conn) rebuild(t ruleset.Table) error {
	var err error
	for range maxRebuilds {
		var present bool
		if present, err = c.tablePresent(); err != nil {
			return err
		}
		err = c.exchange(func(nft *nftables.Conn) error {
			if present {
				nft.DelTable(tableRef(0)) // delete table inet http01-proxyd
			}
			if err := addTable(nft, tableRef(c.flags), t); err != nil {
				return err
			}
			return nft.Flush()
		})
		if !changedConcurrently(err, present) {
			break
		}
	}
	return err
}

// changedConcurrently reports whether a batch failed because the table was added or removed
// after tablePresent.
func changedConcurrently(err error, present bool) bool {
	if present {
		return errors.Is(err, unix.ENOENT)
	}
	return errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EOPNOTSUPP)
}

// tablePresent reports whether a table of our name exists. A table that another process owns
// is an error.
func (c *Conn) tablePresent() (bool, error) {
	t, err := c.getTable()
	switch {
	case err != nil:
		return false, err
	case t == nil:
		return false, nil
	case t.Owner != 0 && t.Owner != c.sock.port:
		return false, ownerError(t.Owner)
	default:
		return true, nil
	}
}

// getTable reads the properties of the service's table. It returns nil if there is no table.
func (c *Conn) getTable() (t *nftables.Table, err error) { return c.getTableNamed(ruleset.Name) }

// getTableNamed is getTable for the table of any program.
func (c *Conn) getTableNamed(name string) (t *nftables.Table, err error) {
	err = c.exchange(func(nft *nftables.Conn) error {
		t, err = nft.ListTableOfFamily(name, nftables.TableFamilyINet)
		return err
	})
	if errors.Is(err, unix.ENOENT) {
		return nil, nil // an absent table is not an error
	}
	return t, err
}

func addTable(nft *nftables.Conn, table *nftables.Table, t ruleset.Table) error {
	nft.AddTable(table) // add table inet http01-proxyd { flags owner; }
	for _, s := range t.Sets() {
		// add set inet http01-proxyd api4 { type ipv4_addr; elements = { … }; }
		if err := nft.AddSet(encodeSet(table, s), encodeElements(s.Elements)); err != nil {
			return fmt.Errorf("add set %s: %w", s.Name, err)
		}
	}
	for _, c := range t.Chains() {
		chain, err := encodeChain(table, c)
		if err != nil {
			return err
		}
		nft.AddChain(chain)
		for _, r := range c.Rules {
			exprs, err := encodeRule(r)
			if err != nil {
				return err
			}
			nft.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: exprs})
		}
	}
	return nil
}

// Remove removes the table, even of an earlier process, unless another process owns it. Without a
// table it does nothing.
func (c *Conn) Remove() error {
	_, err := c.remove()
	if err != nil {
		return c.explain("remove "+tableName, err)
	}
	return nil
}

func (c *Conn) remove() (removed bool, err error) {
	c.desired, c.applied = ruleset.Table{}, false
	present, err := c.tablePresent()
	if err != nil {
		return false, err
	}
	if present {
		err = c.exchange(func(nft *nftables.Conn) error {
			nft.DelTable(tableRef(0)) // delete table inet http01-proxyd
			return nft.Flush()
		})
		// Another process may have removed it first.
		if removed = err == nil; !c.confirmed(err) {
			return false, err
		}
	}
	c.applied = true
	return removed, nil
}

// Cleanup removes a table that an earlier process left. removed reports whether there was
// one. A table that a running process owns is not changed, and the error
// names the process.
func Cleanup() (removed bool, err error) {
	c, err := Open()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if removed, err = c.remove(); err != nil {
		return false, c.explain("remove the leftover "+tableName, err)
	}
	return removed, nil
}
