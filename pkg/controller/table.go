// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// kernelTable is the kernel's table over a connection that is opened when it is
// first needed: a host where nothing is to be installed needs no nftables.
type kernelTable struct {
	persistent bool // the table shall outlive this process
	log        *slog.Logger

	mu                sync.Mutex
	conn              *nftables.Conn
	persistenceWarned bool
	installed         bool // a table of ours stands in the kernel, and goes with the connection unless it is persistent
}

// findInherited finds out whether a former process has left a table behind, and where
// that leads to. A kernel that cannot be asked holds none; why it cannot be, the
// first Apply tells.
func (k *kernelTable) findInherited() (port uint16, left bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open() != nil {
		return 0, false
	}
	s, err := k.conn.State()
	k.installed = err == nil && s.Present && s.Owner == ""
	if !k.installed {
		_ = k.close() // a host where nothing is to be installed keeps no connection
	}
	return s.Port, k.installed
}

// listeners needs mu.
func (k *kernelTable) open() error {
	if k.conn != nil {
		return nil
	}
	if !k.persistent {
		conn, err := nftables.Open()
		k.conn = conn
		return err
	}
	conn, persistent, err := nftables.OpenPersistent()
	if err != nil {
		return err
	}
	if !persistent && !k.persistenceWarned {
		k.persistenceWarned = true
		k.log.Info("this kernel keeps no table without its process (Linux 6.9 does): after a crash, connections to the VIPs are refused until the service is back; across a restart they are not",
			slog.String("event", "table"))
	}
	k.conn = conn
	return nil
}

// Leave lets the table stand for the next process. After an error there is
// none.
func (k *kernelTable) Retain() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn == nil {
		return nil
	}
	conn := k.conn
	k.conn, k.installed = nil, false
	return conn.CloseKeepingTable()
}

// Apply puts t in force. After a failure that left nothing in force, the next
// attempt begins with a fresh connection.
func (k *kernelTable) Apply(t ruleset.Table) error {
	k.mu.Lock()
	defer k.mu.Unlock()
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
	return nil
}

// Verify compares what stands in the kernel with what was applied last.
func (k *kernelTable) Verify() (differs bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn == nil {
		return false, nil
	}
	err = k.conn.Verify()
	return errors.Is(err, nftables.ErrDiffers), err
}

// Remove takes the table out of the kernel.
func (k *kernelTable) Remove() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn == nil {
		return nil
	}
	if err := k.conn.Remove(); err != nil {
		return err
	}
	k.installed = false
	return k.close()
}

// close needs mu.
func (k *kernelTable) close() error {
	conn := k.conn
	k.conn = nil
	if err := conn.Close(); err != nil {
		return fmt.Errorf("close the nftables connection: %w", err)
	}
	return nil
}

// report reads the table back from the kernel.
func (k *kernelTable) report() report.Table {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn == nil {
		return report.Table{}
	}
	s, err := k.conn.State()
	if err != nil {
		return report.Table{Error: err.Error()}
	}
	return reportTable(s)
}

func reportTable(s nftables.State) report.Table {
	t := report.Table{Present: s.Present, Owned: s.Owned, Port: s.Port, Elements: s.VIPs}
	for _, c := range s.Counters {
		t.Counters = append(t.Counters, report.Counter{Chain: c.Chain, Rule: c.Rule, Packets: c.Packets, Bytes: c.Bytes})
	}
	return t
}
