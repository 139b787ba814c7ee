// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

import (
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
)

// openPersistentConn requires a kernel with persistent tables (Linux 6.9).
func openPersistentConn(t *testing.T) *Conn {
	t.Helper()
	nstest.Require(t)
	c, persistent, err := OpenPersistent()
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	if !persistent {
		t.Fatal("this kernel has no persistent tables")
	}
	return c
}

// TestPersistentTable: a table survives its process, even after SIGKILL, and the next process
// takes it over without a gap. Other processes can change the table only while it has no
// owner.
func TestPersistentTable(t *testing.T) {
	nstest.Require(t)
	t.Cleanup(func() { _, _ = Cleanup() })
	owner := startChild(t, "persist")
	before := withoutFlags(listTable(t))
	owner.kill()
	expectUnchanged(t, "the orphaned table", before, withoutFlags(listTable(t)))
	// Another process changes the table without owner.
	nft(t, "add", "rule", "inet", ruleset.Name, "output", "drop")
	c := openPersistentConn(t)
	if s, err := c.State(); err != nil || !s.Present || s.OwnerPort != 0 || s.Port != 8888 {
		t.Errorf("state %+v, %v; want an orphan that redirects to 8888", s, err)
	}
	generations := generation(t, c)
	apply(t, c, ruleset.New(8888, parseAddrs("192.0.2.5", "2001:db8::5")))
	if got := generation(t, c) - generations; got != 1 {
		t.Errorf("taken over in %d batches, want 1: the table was absent in between", got)
	}
	verify(t, c)
	if s, err := c.State(); err != nil || s.OwnerPort != c.NetlinkPort() {
		t.Errorf("state %+v, %v; want it to be owned", s, err)
	}
	nft(t, "flush", "ruleset")
	verify(t, c)
	if other, err := Open(); err != nil {
		t.Error(err)
	} else {
		if err := other.Apply(ruleset.New(9999, nil)); err == nil || !strings.Contains(err.Error(),
			"the table belongs to process") {
			t.Errorf("another process: %v, want its owner", err)
		}
		_ = other.Close()
	}
	must(t, c.Remove())
	expectNoTable(t, "after Remove")
}

// withoutFlags removes the owner from a listing.
func withoutFlags(listing string) string {
	var lines []string
	for line := range strings.Lines(listing) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "table ") && !strings.HasPrefix(line, "flags ") && line != "flags" && line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

func TestCleanupOfAnOrphan(t *testing.T) {
	nstest.Require(t)
	owner := startChild(t, "persist")
	if _, err := Cleanup(); err == nil || !strings.Contains(err.Error(), "the table belongs to process") {
		t.Errorf("Cleanup of a table in use: %v, want its owner", err)
	}
	owner.kill()
	if removed, err := Cleanup(); !removed || err != nil {
		t.Errorf("Cleanup = %v, %v", removed, err)
	}
	expectNoTable(t, "after Cleanup")
}

// TestCloseKeepingTable: the table stays active at all times. On a kernel without persistent
// tables it is rebuilt without an owner.
func TestCloseKeepingTable(t *testing.T) {
	for name, old := range map[string]bool{"persistent tables": false, "a kernel without": true} {
		t.Run(name, func(t *testing.T) {
			c := openPersistentConn(t)
			t.Cleanup(func() { _, _ = Cleanup() })
			if old {
				c.flags &^= nftables.TableFlagPersist // as OpenPersistent does on such a kernel
			}
			apply(t, c, ruleset.New(8888, parseAddrs("192.0.2.5")))
			verify(t, c)
			before := withoutFlags(listTable(t))
			must(t, c.CloseKeepingTable())
			expectUnchanged(t, "the kept table", before, withoutFlags(listTable(t)))
			next := openPersistentConn(t)
			apply(t, next, ruleset.New(8888, parseAddrs("192.0.2.6")))
			verify(t, next)
		})
	}
	t.Run("no table", func(t *testing.T) {
		c := openPersistentConn(t)
		if err := c.CloseKeepingTable(); err != nil {
			t.Error(err)
		}
		expectNoTable(t, "although there was no table")
	})
}

// TestNoPersistentTables: a kernel before 6.9 rejects the flag.
func TestNoPersistentTables(t *testing.T) {
	old := kernelRefusing(unix.NFT_MSG_NEWTABLE, unix.EOPNOTSUPP, func(m netlink.Message) bool {
		return tableFlags(m)&byte(nftables.TableFlagPersist) != 0
	})
	c, err := open(old.dial)
	must(t, err)
	if supported, err := c.supportsPersist(); supported || err != nil {
		t.Errorf("supportsPersist = %v, %v", supported, err)
	}
}
