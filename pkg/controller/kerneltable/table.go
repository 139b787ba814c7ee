// SPDX-License-Identifier: Apache-2.0

package kerneltable

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Table is the kernel's table over a connection that is opened when it is first needed: a host
// without a table does not need nftables. Reports read over a separate connection, so that
// Apply never waits for one. Everything but Report belongs to the goroutine of the reconcile
// loop.
type Table struct {
	persistent bool // the table must outlive this process
	log        *slog.Logger
	onApplied  func(*ruleset.Table) // receives the applied table; nil: none

	conn              *nftables.Conn
	persistenceWarned bool
	last              ruleset.Table // that onApplied got, unless the kernel's differs
	installed         bool          // our table is in the kernel, until the connection ends unless it is persistent
	owner             atomic.Uint32 // the netlink port that owns the table; 0 while there is no connection
}

// New returns a Table without a connection to the kernel. A persistent table outlives this
// process. onApplied receives each applied table, or nil.
func New(log *slog.Logger, persistent bool, onApplied func(*ruleset.Table)) *Table {
	return &Table{log: log, persistent: persistent, onApplied: onApplied}
}

// FindInherited finds out whether the previous process left a table, and the port that
// it redirects to. If the kernel cannot be queried the result is false, and the first
// Apply reports the reason.
func (k *Table) FindInherited() (port uint16, present bool) {
	if k.open() != nil {
		return 0, false
	}
	s, err := k.conn.State()
	k.installed = err == nil && s.Present && s.OwnerPort == 0
	if !k.installed {
		_ = k.close() // a host without a table keeps no connection
	}
	return s.Port, k.installed
}

func (k *Table) open() error {
	if k.conn != nil {
		return nil
	}
	open := nftables.OpenPersistent
	if !k.persistent {
		open = func() (*nftables.Conn, bool, error) {
			conn, err := nftables.Open()
			return conn, true, err
		}
	}
	conn, persistent, err := open()
	if err != nil {
		return err
	}
	if !persistent && !k.persistenceWarned {
		k.persistenceWarned = true
		k.log.Info("this kernel removes the table if the service crashes (Linux 6.9 and later keep it): connections to "+
			"the VIPs are then refused until the service runs again; a restart of the service refuses none",
			slog.String("event", "table"))
	}
	k.conn = conn
	k.owner.Store(conn.NetlinkPort())
	return nil
}

// Retain implements reconcile.Table: the table stays for the next process. After an error
// there is no table.
func (k *Table) Retain() error {
	if k.conn == nil {
		return nil
	}
	conn := k.conn
	k.conn, k.installed = nil, false
	k.owner.Store(0)
	return conn.CloseKeepingTable()
}

// Apply implements reconcile.Table. After a failure that left no table, the next attempt
// begins with a new connection.
func (k *Table) Apply(t ruleset.Table) error {
	if err := k.apply(t); err != nil {
		k.last = ruleset.Table{}
		k.onApplied(nil)
		return err
	}
	if k.last != t {
		k.last = t
		k.onApplied(&t)
	}
	return nil
}

func (k *Table) apply(t ruleset.Table) error {
	if err := k.open(); err != nil {
		return err
	}
	if err := k.conn.Apply(t); err != nil {
		if !k.installed {
			err = errors.Join(err, k.close())
		}
		return err
	}
	k.installed = true
	k.owner.Store(k.conn.NetlinkPort())
	return nil
}

// Verify implements reconcile.Table.
func (k *Table) Verify() (differs bool, err error) {
	if k.conn == nil {
		return false, nil
	}
	err = k.conn.Verify()
	if differs = errors.Is(err, nftables.ErrDiffers); differs {
		k.last = ruleset.Table{}
	}
	return differs, err
}

// Remove implements reconcile.Table.
func (k *Table) Remove() error {
	k.last = ruleset.Table{}
	k.onApplied(nil)
	if k.conn == nil {
		return nil
	}
	if err := k.conn.Remove(); err != nil {
		return err
	}
	k.installed = false
	return k.close()
}

func (k *Table) close() error {
	conn := k.conn
	k.conn = nil
	k.owner.Store(0)
	if err := conn.Close(); err != nil {
		return fmt.Errorf("close the nftables connection: %w", err)
	}
	return nil
}

// Report reads the table from the kernel while the connection for it is open. Any goroutine can
// call it.
func (k *Table) Report() report.Table {
	owner := k.owner.Load()
	if owner == 0 {
		return report.Table{}
	}
	var s nftables.State
	reader, err := nftables.Open()
	if err == nil {
		s, err = reader.State()
		err = errors.Join(err, reader.Close())
	}
	if err != nil {
		return report.Table{Error: err.Error()}
	}
	return report.Table{
		Present: s.Present, Owned: s.Present && s.OwnerPort == owner, Port: s.Port, Elements: s.VIPs, Counters: s.Counters,
	}
}
