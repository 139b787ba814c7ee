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

// Conn is an accepted connection; the next one when it is handed to
// [Listener.Accept] again after Close. Its methods may be called from many
// goroutines.
//
// A validator's request has come when its connection is accepted, and the answer
// fits into the socket's buffer: as a rule nothing has to be waited for. So the
// socket enters the runtime's poller when it first has to be; until then it is
// read and written directly, and its deadlines are noted only.
type Conn struct {
	local  netip.AddrPort
	remote netip.AddrPort

	mu            sync.Mutex // whoever holds it, and finds the connection open, may use fd
	isOpen        bool
	fd            int
	file          *os.File // of fd, once that is in the poller
	readDeadline  time.Time
	writeDeadline time.Time
}

// attach makes c the connection fd. It was closed before, or is new.
func (c *Conn) attach(fd int, remote netip.AddrPort) error {
	local, err := nonblock.LocalAddr(fd)
	if err != nil {
		return errors.Join(fmt.Errorf("find the address that a client connected to: %w", err), unix.Close(fd))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isOpen, c.fd, c.file = true, fd, nil
	c.local, c.remote, c.readDeadline, c.writeDeadline = local, remote, time.Time{}, time.Time{}
	return nil
}

// Local is the address that the client connected to; IPv4 as such.
func (c *Conn) Local() netip.AddrPort { return c.local }

// Remote is the client's address; IPv4 as such.
func (c *Conn) Remote() netip.AddrPort { return c.remote }

// Read implements [io.Reader]. What has come is read whatever the deadline.
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
	if waits == nil { // a part of it
		if waits, err = c.polled(); err != nil {
			return n, err
		}
	}
	m, err := waits.Write(p[n:])
	return n + m, err
}

// tryNonblocking makes a system call that does not block. It returns the file instead when
// the socket is in the poller, or has to be since the call would block.
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

// polled has the socket in the poller.
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

// addToPoller has the socket enter the poller, on a stack of another goroutine: it takes
// more than the first 2 KiB, which each of thousands that wait would keep. It needs
// mu.
func (c *Conn) addToPoller() error {
	entered := make(chan error)
	go func() { entered <- c.openPolled() }()
	return <-entered
}

// openPolled needs mu.
func (c *Conn) openPolled() error {
	c.file = os.NewFile(uintptr(c.fd), "")
	err := errors.Join(c.file.SetReadDeadline(c.readDeadline), c.file.SetWriteDeadline(c.writeDeadline))
	if err != nil {
		return errors.Join(fmt.Errorf("wait for a client: %w", err), c.close())
	}
	return nil
}

// SetReadDeadline ends the wait of a Read with [os.ErrDeadlineExceeded].
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readDeadline = t; c.file != nil {
		return c.file.SetReadDeadline(t)
	}
	return c.checkOpen()
}

// SetWriteDeadline ends the wait of a Write with [os.ErrDeadlineExceeded].
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writeDeadline = t; c.file != nil {
		return c.file.SetWriteDeadline(t)
	}
	return c.checkOpen()
}

// checkOpen needs mu.
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

// close needs mu.
func (c *Conn) close() error {
	if err := c.checkOpen(); err != nil {
		return err
	}
	if c.isOpen = false; c.file != nil {
		return c.file.Close()
	}
	return nonblock.Close(c.fd)
}

// CloseWrite ends this side of the connection.
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

// Control has f look at the socket, and f must not block.
func (c *Conn) Control(f func(fd int) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkOpen(); err != nil {
		return err
	}
	return f(c.fd)
}
