// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
)

// timeout limits one exchange with the kernel. The kernel answers a request while it is being
// sent, so only a missing reply reaches the timeout. The timeout cannot interrupt the send
// itself, which waits uninterruptibly for other nftables changes.
const timeout = 5 * time.Second

// Conn is a connection to the kernel's table. It belongs to one goroutine; a reader of the table in
// another goroutine needs its own Conn. The table exists from the first Apply until Remove or
// Close, or until the process ends. A table of OpenPersistent exists until Remove.
type Conn struct {
	dial    func() (*socket, error)
	timeout time.Duration

	sock    *socket             // nil after a socket error, until the next exchange
	closed  bool                // by Close
	flags   nftables.TableFlags // flags of the table
	desired ruleset.Table       // the table that was applied last; the zero value if no table should exist
	applied bool                // the kernel is known to hold desired
}

// Open opens the netlink connection that will own the table. It changes nothing in the
// kernel. It fails if the socket's descriptor is 1024 or higher, so it must be called before
// the process opens many files.
func Open() (*Conn, error) {
	return open(openSocket)
}

// OpenPersistent is Open for a table that stays active without an owner when the process ends,
// so that the next process takes it over without a gap. This requires Linux 6.9
// (NFT_TABLE_F_PERSIST). With older kernels persistent is false, and the kernel removes the
// table with the process, unless CloseKeepingTable was called. It is for processes that are
// followed by another one, or by Cleanup.
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

// supportsPersist tests the flag on a table that is deleted in the same batch. A kernel
// without the flag returns EOPNOTSUPP (nf_tables_newtable).
func (c *Conn) supportsPersist() (bool, error) {
	err := c.exchange(func(nft *nftables.Conn) error {
		t := &nftables.Table{
			Name: trialTable, Family: nftables.TableFamilyINet,
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
	c := &Conn{dial: dial, timeout: timeout, flags: nftables.TableFlagOwner, applied: true}
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

// exchange runs requests over the socket within the timeout. After a socket error it opens a
// new socket.
//
// The timer closes the socket instead of setting a deadline: the nftables library reads until
// the socket is empty and continues after an error, so with an expired deadline it would
// never stop reading. A socket that was closed or that failed is not used again, because
// replies may still be queued on it. The kernel then removes the table, or leaves a
// persistent one without owner, and the next Apply rebuilds it.
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
		c.sock, c.applied = nil, false
	}
	if expired {
		return errors.Join(fmt.Errorf("no reply from the kernel within %v", c.timeout), err)
	}
	return err
}

// CloseKeepingTable closes the connection and leaves the table active for the next process. It
// is for a Conn of OpenPersistent. If the kernel does not support persistent tables, the table
// is first rebuilt without an owner. An error means that the kernel removes the table with the
// connection, which is closed in any case.
func (c *Conn) CloseKeepingTable() error {
	return errors.Join(c.disownTable(), c.Close())
}

// disownTable makes the kernel keep the table when this process ends.
func (c *Conn) disownTable() error {
	if c.desired == (ruleset.Table{}) || (c.flags&nftables.TableFlagPersist != 0 && c.applied) {
		return nil
	}
	if c.flags&nftables.TableFlagPersist == 0 {
		c.flags = 0
	}
	if err := c.rebuild(c.desired); !c.confirmed(err) {
		return c.explain("keep "+tableName+" for the next process", err)
	}
	return nil
}

// Close closes the connection. The kernel then removes the table, unless it is persistent.
// Closing again does nothing.
func (c *Conn) Close() error {
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
