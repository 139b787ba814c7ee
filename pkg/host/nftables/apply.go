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

// maxRebuilds bounds how often a rebuild is tried again after somebody made or
// removed a table of our name in between.
const maxRebuilds = 3

// Apply makes the kernel's table the given one, in one atomic batch. It sends
// nothing when that table is in force already, set elements alone when only the
// VIPs differ, and the whole table otherwise, also after an error and after a
// Verify that found a difference. A left-over table of the same name that
// nobody owns is replaced. An error is ErrUnavailable and means that the table in
// force is unknown, or none.
func (c *Conn) Apply(t ruleset.Table) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.Port() == 0 {
		return errors.New("apply " + tableName + ": it has no port to lead to")
	}
	if c.inForce && c.desired != nil {
		if c.desired.Equal(t) {
			return nil
		}
		if c.desired.Port() == t.Port() {
			if c.exchange(func(nft *nftables.Conn) error { return updateElements(nft, *c.desired, t) }) == nil {
				c.desired = &t
				return nil
			}
			// The owner flag keeps others from changing the table, so this
			// is a kernel that lost it somehow: whatever happened, a rebuild
			// needs nothing of what was there.
		}
	}
	c.desired, c.inForce = &t, false
	if err := c.rebuild(t); err != nil {
		return c.explain("put "+tableName+" in place", err)
	}
	c.inForce = true
	return nil
}

// updateElements changes the elements of the sets from those of one table to
// those of the other.
func updateElements(nft *nftables.Conn, from, to ruleset.Table) error {
	table := tableRef(0)
	old := from.Sets()
	for i, s := range to.Sets() {
		set := encodeSet(table, s)
		gone, added := difference(old[i].Elements, s.Elements), difference(s.Elements, old[i].Elements)
		err := errors.Join(
			// delete element inet http01-proxyd api4 { … }
			nft.SetDeleteElements(set, encodeElements(gone)),
			// add element inet http01-proxyd api4 { … }
			nft.SetAddElements(set, encodeElements(added)),
		)
		if err != nil {
			return err
		}
	}
	return nft.Flush()
}

// difference returns the elements of a that are not in b.
func difference(a, b []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(a), func(x netip.Addr) bool { return slices.Contains(b, x) })
}

// rebuild replaces whatever table of our name is there. It has to look first:
// adding a table that is there already fails when the flags differ
// (nf_tables_updtable), and deleting one that is not there fails as well.
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
			if err := addTable(nft, t, c.flags); err != nil {
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

// changedConcurrently tells a batch that failed because the table came or went
// after present looked.
func changedConcurrently(err error, present bool) bool {
	if present {
		return errors.Is(err, unix.ENOENT)
	}
	return errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EOPNOTSUPP)
}

// tablePresent reports whether a table of our name is there; one that another
// process owns is an error.
func (c *Conn) tablePresent() (bool, error) {
	t, err := c.getTable()
	switch {
	case err != nil:
		return false, err
	case t == nil:
		return false, nil
	case t.Owner != 0 && t.Owner != c.sock.port:
		return false, newOwnerError(t.Owner)
	default:
		return true, nil
	}
}

// getTable reads the table's own properties; it returns nil when there is none.
func (c *Conn) getTable() (t *nftables.Table, err error) {
	err = c.exchange(func(nft *nftables.Conn) error {
		t, err = nft.ListTableOfFamily(ruleset.Name, nftables.TableFamilyINet)
		return err
	})
	if errors.Is(err, unix.ENOENT) {
		return nil, nil // no table is an answer like any other
	}
	return t, err
}

// addTable adds the whole table to the batch.
func addTable(nft *nftables.Conn, t ruleset.Table, flags nftables.TableFlags) error {
	table := nft.AddTable(tableRef(flags)) // add table inet http01-proxyd { flags owner; }
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

// Remove takes the table away, whoever left it there, unless another process
// owns it. Without a table it does nothing.
func (c *Conn) Remove() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.desired, c.inForce = nil, false
	if _, err := c.remove(); err != nil {
		return c.explain("remove "+tableName, err)
	}
	c.inForce = true
	return nil
}

func (c *Conn) remove() (removed bool, err error) {
	present, err := c.tablePresent()
	if err != nil || !present {
		return false, err
	}
	err = c.exchange(func(nft *nftables.Conn) error {
		nft.DelTable(tableRef(0))
		return nft.Flush()
	})
	if errors.Is(err, unix.ENOENT) {
		return false, nil // somebody else was faster
	}
	return err == nil, err
}

// Cleanup removes a table that a process left behind; removed says whether
// there was one. A table that a living process owns is left alone, and the error
// is ErrOwned and names the process.
func Cleanup() (removed bool, err error) {
	c, err := Open()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if removed, err = c.remove(); err != nil {
		return false, c.explain("remove the left-over "+tableName, err)
	}
	return removed, nil
}
