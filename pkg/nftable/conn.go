// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftable

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/google/nftables"

	"github.com/http01-proxyd/http01-proxyd/pkg/ruleset"
)

// timeout bounds one exchange with the kernel. The kernel answers a request
// while it is being sent, so only a reply that never comes can use it up. (What
// it cannot bound is a kernel that does not return from the send itself, where it
// waits for other changes of nftables, uninterruptibly.)
const timeout = 5 * time.Second

// Conn is the way to the kernel's table. Its methods are safe for concurrent
// use. The table is there from the first Apply until Remove or Close, or until
// the process ends.
type Conn struct {
	dial    func() (*socket, error)
	timeout time.Duration

	mu      sync.Mutex
	sock    *socket        // nil after it broke, until the next exchange
	closed  bool           // by Close
	want    *ruleset.Table // what was applied last; nil when the table shall not be there
	inForce bool           // the kernel is known to hold want
}

// Open opens the lasting netlink connection that will own the table. It changes
// nothing in the kernel. Call it early: it fails when the process already holds
// so many files that the socket's descriptor is 1024 or more.
func Open() (*Conn, error) {
	return open(openSocket)
}

func open(dial func() (*socket, error)) (*Conn, error) {
	c := &Conn{dial: dial, timeout: timeout, inForce: true}
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
// the kernel then drops the table, and the next Apply makes it anew.
func (c *Conn) exchange(requests func(*nftables.Conn) error) error {
	if err := c.connect(); err != nil {
		return err
	}
	sock := c.sock
	guard := time.AfterFunc(c.timeout, func() { _ = sock.close() })
	err := requests(sock.nft)
	expired := !guard.Stop()
	if expired || broken(err) {
		_ = sock.close()
		c.sock, c.inForce = nil, false
	}
	if expired {
		return errors.Join(fmt.Errorf("no answer from the kernel for %v", c.timeout), err)
	}
	return err
}

// Close closes the connection; the kernel removes the table with it. Closing
// again does nothing.
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
