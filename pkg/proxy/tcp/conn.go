// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/nonblock"
)

// Conn is an accepted connection. After Close, [Listener.Accept] can reuse it for
// the next connection. Its methods are safe for concurrent use.
//
// The request of a validator has usually arrived when its connection is accepted,
// and the response fits into the socket's buffer. Most connections therefore never
// wait. The socket is added to the runtime's poller only when a call would block.
// Until then, reads and writes are direct system calls, and deadlines are only
// stored.
type Conn struct {
	local  netip.AddrPort
	remote netip.AddrPort

	mu            sync.Mutex // fd may be used while mu is held and isOpen is true
	isOpen        bool
	fd            int
	file          *os.File // of fd, once it is in the poller
	readDeadline  time.Time
	writeDeadline time.Time
}

// attach makes c the connection fd. c must be new or closed.
func (c *Conn) attach(fd int, remote netip.AddrPort) error {
	local, err := nonblock.LocalAddr(fd)
	if err != nil {
		return errors.Join(fmt.Errorf("cannot read the local address of a connection: %w", err), unix.Close(fd))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isOpen, c.fd, c.file = true, fd, nil
	c.local, c.remote, c.readDeadline, c.writeDeadline = local, remote, time.Time{}, time.Time{}
	return nil
}

// Local returns the address that the client connected to, unmapped.
func (c *Conn) Local() netip.AddrPort { return c.local }

// Remote returns the address of the client, unmapped.
func (c *Conn) Remote() netip.AddrPort { return c.remote }

// Read implements [io.Reader]. Bytes that have arrived are returned whatever the
// deadline.
func (c *Conn) Read(p []byte) (int, error) {
	n, waits, err := c.tryNonblocking(nonblock.Read, p)
	if waits == nil {
		if n == 0 && err == nil && len(p) > 0 {
			err = io.EOF
		}
		return n, err
	}
	return waits.Read(p)
}

// Write implements [io.Writer].
func (c *Conn) Write(p []byte) (int, error) {
	n, waits, err := c.tryNonblocking(nonblock.Write, p)
	if waits == nil && (err != nil || n == len(p)) {
		return n, err
	}
	if waits == nil { // a partial write
		if waits, err = c.polled(); err != nil {
			return n, err
		}
	}
	m, err := waits.Write(p[n:])
	return n + m, err
}

// tryNonblocking makes a system call that does not block. If the socket is in the
// poller, or must be because the call would block, it returns the file instead.
func (c *Conn) tryNonblocking(call func(int, []byte) (int, error), p []byte) (n int, waits *os.File, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.isOpen && c.file == nil {
		n, err = call(c.fd, p)
		if !errors.Is(err, unix.EAGAIN) {
			return n, nil, err
		}
		if err := c.addToPoller(); err != nil {
			return 0, nil, err
		}
	}
	return 0, c.file, c.checkOpen()
}

// polled returns the file of the socket in the poller.
func (c *Conn) polled() (*os.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isOpen && c.file == nil {
		if err := c.addToPoller(); err != nil {
			return nil, err
		}
	}
	return c.file, c.checkOpen()
}

// addToPoller runs openPolled on the stack of another goroutine. It needs more than
// the first 2 KiB of a stack, and each of thousands of waiting goroutines would
// keep that. The caller holds mu.
func (c *Conn) addToPoller() error {
	entered := make(chan error)
	go func() { entered <- c.openPolled() }()
	return <-entered
}

// openPolled adds the socket to the poller, with the stored deadlines. The caller
// holds mu.
func (c *Conn) openPolled() error {
	c.file = os.NewFile(uintptr(c.fd), "")
	err := errors.Join(c.file.SetReadDeadline(c.readDeadline), c.file.SetWriteDeadline(c.writeDeadline))
	if err != nil {
		return errors.Join(fmt.Errorf("cannot wait for a client: %w", err), c.close())
	}
	return nil
}

// SetReadDeadline sets the time at which a waiting Read ends with
// [os.ErrDeadlineExceeded].
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readDeadline = t; c.file != nil {
		return c.file.SetReadDeadline(t)
	}
	return c.checkOpen()
}

// SetWriteDeadline sets the time at which a waiting Write ends with
// [os.ErrDeadlineExceeded].
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writeDeadline = t; c.file != nil {
		return c.file.SetWriteDeadline(t)
	}
	return c.checkOpen()
}

// checkOpen returns [os.ErrClosed] after Close. The caller holds mu.
func (c *Conn) checkOpen() error {
	if !c.isOpen {
		return os.ErrClosed
	}
	return nil
}

// HasUnread reports whether the client has sent bytes that were not read.
func (c *Conn) HasUnread() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isOpen {
		return false
	}
	n, _ := nonblock.Peek(c.fd)
	return n > 0
}

// Close closes the connection.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.close()
}

// close is Close. The caller holds mu.
func (c *Conn) close() error {
	if err := c.checkOpen(); err != nil {
		return err
	}
	if c.isOpen = false; c.file != nil {
		return c.file.Close()
	}
	return nonblock.Close(c.fd)
}

// CloseWrite shuts down the sending side.
func (c *Conn) CloseWrite() error {
	return c.Control(func(fd int) error { return unix.Shutdown(fd, unix.SHUT_WR) })
}

// Reset closes the connection with a reset (tcp(7), SO_LINGER).
func (c *Conn) Reset() error {
	err := c.Control(func(fd int) error {
		return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	})
	return errors.Join(err, c.Close())
}

// Control calls f with the descriptor. f must not block.
func (c *Conn) Control(f func(fd int) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkOpen(); err != nil {
		return err
	}
	return f(c.fd)
}
