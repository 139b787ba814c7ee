// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
)

// openPersistentConn has to find persistent tables: Linux 6.9 and later have them.
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

// A table outlives its process, be it killed, and the next one takes it over:
// at no moment there is none, and nobody else can take or change it meanwhile
// but while nobody owns it.
func TestPersistentTable(t *testing.T) {
	nstest.Require(t)
	t.Cleanup(func() { _, _ = Cleanup() })
	owner := startChild(t, "persist")
	before := withoutFlags(listTable(t))
	owner.kill()
	expectUnchanged(t, "the orphaned table", before, withoutFlags(listTable(t)))
	// Somebody changes what nobody owns.
	nft(t, "add", "rule", "inet", ruleset.Name, "input", "drop")
	c := openPersistentConn(t)
	if s, err := c.State(); err != nil || !s.Present || s.Owned || s.Owner != "" || s.Port != 8888 {
		t.Errorf("state %+v, %v; want an orphan that leads to 8888", s, err)
	}
	generations := generation(t, c)
	apply(t, c, ruleset.New(8888, parseAddrs("192.0.2.5", "2001:db8::5")))
	if got := generation(t, c) - generations; got != 1 {
		t.Errorf("taken over in %d batches, want 1: there was a moment without the table", got)
	}
	verify(t, c)
	if s, err := c.State(); err != nil || !s.Owned {
		t.Errorf("state %+v, %v; want it to be owned", s, err)
	}
	nft(t, "flush", "ruleset")
	verify(t, c)
	if other, err := Open(); err != nil {
		t.Error(err)
	} else {
		if err := other.Apply(ruleset.New(9999, nil)); !errors.Is(err, ErrOwned) {
			t.Errorf("another process: %v, want ErrOwned", err)
		}
		_ = other.Close()
	}
	must(t, c.Remove())
	expectNoTable(t, "after Remove")
}

// withoutFlags leaves out what nft says of the owner.
func withoutFlags(listing string) string {
	var kept []string
	for line := range strings.Lines(listing) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "table ") && !strings.HasPrefix(line, "flags ") && line != "flags" && line != "" {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

func TestCleanupOfAnOrphan(t *testing.T) {
	nstest.Require(t)
	owner := startChild(t, "persist")
	if _, err := Cleanup(); !errors.Is(err, ErrOwned) {
		t.Errorf("Cleanup of a table in use: %v, want ErrOwned", err)
	}
	owner.kill()
	if removed, err := Cleanup(); !removed || err != nil {
		t.Errorf("Cleanup = %v, %v", removed, err)
	}
	expectNoTable(t, "after Cleanup")
}

// Leave lets the table stand, in force all the time, also on a kernel that knows
// no persistent tables, where it makes one without an owner.
func TestCloseKeepingTable(t *testing.T) {
	for name, old := range map[string]bool{"persistent tables": false, "a kernel without": true} {
		t.Run(name, func(t *testing.T) {
			c := openPersistentConn(t)
			t.Cleanup(func() { _, _ = Cleanup() })
			if old {
				c.flags &^= nftables.TableFlagPersist // what OpenPersistent does there
			}
			apply(t, c, ruleset.New(8888, parseAddrs("192.0.2.5")))
			verify(t, c)
			before := withoutFlags(listTable(t))
			must(t, c.CloseKeepingTable())
			expectUnchanged(t, "the table that was left", before, withoutFlags(listTable(t)))
			next := openPersistentConn(t)
			apply(t, next, ruleset.New(8888, parseAddrs("192.0.2.6")))
			verify(t, next)
		})
	}
	t.Run("nothing to leave", func(t *testing.T) {
		c := openPersistentConn(t)
		if err := c.CloseKeepingTable(); err != nil {
			t.Error(err)
		}
		expectNoTable(t, "although there was nothing to leave")
	})
}

// A kernel before 6.9 refuses the flag.
func TestNoPersistentTables(t *testing.T) {
	old := kernelRefusing(unix.NFT_MSG_NEWTABLE, unix.EOPNOTSUPP, func(m netlink.Message) bool {
		return tableFlags(m)&byte(nftables.TableFlagPersist) != 0
	})
	c, err := open(old.dial)
	must(t, err)
	if takes, err := c.supportsPersist(); takes || err != nil {
		t.Errorf("takesPersist = %v, %v", takes, err)
	}
}
