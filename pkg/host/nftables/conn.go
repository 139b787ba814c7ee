// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
)

// timeout bounds one exchange with the kernel. The kernel answers a request
// while it is being sent, so only a reply that never comes can use it up. (What
// it cannot bound is a kernel that does not return from the send itself, where it
// waits for other changes of nftables, uninterruptibly.)
const timeout = 5 * time.Second

// Conn is the way to the kernel's table. Its methods are safe for concurrent
// use. The table is there from the first Apply until Remove or Close, or until
// the process ends; that of OpenPersistent until Remove.
type Conn struct {
	dial    func() (*socket, error)
	timeout time.Duration

	mu      sync.Mutex
	sock    *socket             // nil after it broke, until the next exchange
	closed  bool                // by Close
	flags   nftables.TableFlags // with which the table is made
	desired *ruleset.Table      // what was applied last; nil when the table shall not be there
	inForce bool                // the kernel is known to hold want
}

// Open opens the lasting netlink connection that will own the table. It changes
// nothing in the kernel. Call it early: it fails when the process already holds
// so many files that the socket's descriptor is 1024 or more.
func Open() (*Conn, error) {
	return open(openSocket)
}

// OpenPersistent is Open for a table that stays in force, orphaned, when the
// process ends, so that the next one takes it over without a gap. That takes
// Linux 6.9 (NFT_TABLE_F_PERSIST); before, the kernel removes the table with the
// process all the same, unless the process could call Leave, and persistent is
// false. It is for processes that are known to be followed by another, or by
// Cleanup.
func OpenPersistent() (c *Conn, persistent bool, err error) {
	c, err = Open()
	if err != nil {
		return nil, false, err
	}
	if persistent, err = c.supportsPersist(); err != nil {
		return nil, false, errors.Join(explain("open nftables", err), c.Close())
	}
	if persistent {
		c.flags |= nftables.TableFlagPersist
	}
	return c, persistent, nil
}

// supportsPersist tries the flag on a table that goes again in the same batch. A
// kernel that does not know it says EOPNOTSUPP (nf_tables_newtable).
func (c *Conn) supportsPersist() (bool, error) {
	err := c.exchange(func(nft *nftables.Conn) error {
		t := &nftables.Table{
			Name: ruleset.Name + "-probe", Family: nftables.TableFamilyINet,
			Flags: nftables.TableFlagOwner | nftables.TableFlagPersist,
		}
		nft.AddTable(t)
		nft.DelTable(t)
		return nft.Flush()
	})
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		return false, nil
	}
	return err == nil, err
}

func open(dial func() (*socket, error)) (*Conn, error) {
	c := &Conn{dial: dial, timeout: timeout, flags: nftables.TableFlagOwner, inForce: true}
	if err := c.connect(); err != nil {
		return nil, explain("open nftables", err)
	}
	return c, nil
}

func (c *Conn) connect() error {
	if c.closed {
		return os.ErrClosed
	}
	if c.sock != nil {
		return nil
	}
	sock, err := c.dial()
	if err != nil {
		return err
	}
	c.sock = sock
	return nil
}

// exchange runs requests over the socket within the timeout, over a new socket
// when the last one broke.
//
// The guard closes the socket, where a deadline would seem simpler: the nftables
// library reads until the socket is empty and goes on after an error, so an
// expired deadline would make it read forever. A socket that was closed, or that
// failed in itself, is not used again, since answers may still be queued on it;
// the kernel then drops the table, or orphans a persistent one, and the next Apply
// makes it anew.
func (c *Conn) exchange(requests func(*nftables.Conn) error) error {
	if err := c.connect(); err != nil {
		return err
	}
	sock := c.sock
	guard := time.AfterFunc(c.timeout, func() { _ = sock.close() })
	err := requests(sock.nft)
	expired := !guard.Stop()
	if expired || isSocketError(err) {
		_ = sock.close()
		c.sock, c.inForce = nil, false
	}
	if expired {
		return errors.Join(fmt.Errorf("no answer from the kernel for %v", c.timeout), err)
	}
	return err
}

// CloseKeepingTable closes the connection and lets the table stand, for whoever comes next.
// It is for a Conn of OpenPersistent; where the kernel has no persistent tables,
// the table is made anew without an owner first. An error means that it goes
// with the connection, which is closed all the same.
func (c *Conn) CloseKeepingTable() error {
	return errors.Join(c.disownTable(), c.Close())
}

// disownTable makes the table one that the kernel leaves alone when this process
// ends.
func (c *Conn) disownTable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.desired == nil || (c.flags&nftables.TableFlagPersist != 0 && c.inForce) {
		return nil
	}
	if c.flags&nftables.TableFlagPersist == 0 {
		c.flags = 0
	}
	if err := c.rebuild(*c.desired); err != nil {
		return c.explain("leave "+tableName+" for the next process", err)
	}
	return nil
}

// Close closes the connection; the kernel removes the table with it, unless the
// table is persistent. Closing again does nothing.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	if c.sock == nil {
		return nil
	}
	err := c.sock.close()
	c.sock = nil
	if err != nil {
		return fmt.Errorf("close the nftables connection: %w", err)
	}
	return nil
}
