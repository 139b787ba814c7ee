// SPDX-License-Identifier: Apache-2.0

// Package tcp has what the gate needs of listening sockets and connections, and
// nothing else. Package net makes five setsockopt(2) calls and more for each
// connection that it accepts, for keep-alive probes and the like; here, what
// holds for all connections is set once on the listener, from which the kernel
// hands it down.
package tcp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Listener is a listening socket. Its methods may be called from many
// goroutines, Accept from one.
type Listener struct {
	file   *os.File
	raw    syscall.RawConn
	accept func(fd uintptr) bool
	last   accepted
	closed atomic.Bool
}

type accepted struct {
	fd     int
	remote unix.Sockaddr
	err    error
}

// NewListener takes a socket that listens already, fd and all.
func NewListener(fd int) (*Listener, error) {
	err := errors.Join(
		unix.SetNonblock(fd, true),
		// An answer is one write, or a few: none waits for the last one's
		// acknowledgment.
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare a listening socket: %w", err), unix.Close(fd))
	}
	l := &Listener{file: os.NewFile(uintptr(fd), "listener")}
	if l.raw, err = l.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, l.file.Close())
	}
	l.accept = func(fd uintptr) bool {
		a := &l.last
		for {
			a.fd, a.remote, a.err = unix.Accept4(int(fd), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
			// A connection that was reset in the backlog is no failure of ours.
			if !errors.Is(a.err, unix.EINTR) && !errors.Is(a.err, unix.ECONNABORTED) {
				return !errors.Is(a.err, unix.EAGAIN)
			}
		}
	}
	return l, nil
}

// Accept waits for a connection, until the deadline.
func (l *Listener) Accept() (*Conn, error) {
	if err := l.raw.Read(l.accept); err != nil {
		return nil, l.explain(err)
	}
	a := l.last
	l.last = accepted{}
	if a.err != nil {
		return nil, fmt.Errorf("accept: %w", a.err)
	}
	return newConn(a.fd, a.remote)
}

// SetDeadline ends an Accept with [os.ErrDeadlineExceeded].
func (l *Listener) SetDeadline(t time.Time) error { return l.explain(l.file.SetReadDeadline(t)) }

// explain names the end of the socket: os does not, of what it does not wrap.
func (l *Listener) explain(err error) error {
	if err != nil && l.closed.Load() {
		return os.ErrClosed
	}
	return err
}

// Close closes the socket. An Accept ends with [os.ErrClosed].
func (l *Listener) Close() error {
	l.closed.Store(true)
	return l.file.Close()
}

// SyscallConn gives access to the socket.
func (l *Listener) SyscallConn() (syscall.RawConn, error) { return l.raw, nil }

// Addr is the address that the socket listens on.
func (l *Listener) Addr() net.Addr {
	var addr netip.AddrPort
	_ = l.raw.Control(func(fd uintptr) {
		if local, err := unix.Getsockname(int(fd)); err == nil {
			addr = addrPort(local)
		}
	})
	return net.TCPAddrFromAddrPort(addr)
}

// Conn is an accepted connection. Its methods may be called from many
// goroutines.
type Conn struct {
	file   *os.File
	raw    syscall.RawConn
	local  netip.AddrPort
	remote netip.AddrPort
}

func newConn(fd int, remote unix.Sockaddr) (*Conn, error) {
	local, err := unix.Getsockname(fd)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("find the address that a client connected to: %w", err), unix.Close(fd))
	}
	return take(fd, local, remote)
}

func take(fd int, local, remote unix.Sockaddr) (*Conn, error) {
	c := &Conn{file: os.NewFile(uintptr(fd), ""), local: addrPort(local), remote: addrPort(remote)}
	var err error
	if c.raw, err = c.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, c.file.Close())
	}
	return c, nil
}

// Local is the address that the client connected to; IPv4 as such.
func (c *Conn) Local() netip.AddrPort { return c.local }

// Remote is the client's address; IPv4 as such.
func (c *Conn) Remote() netip.AddrPort { return c.remote }

// Read implements [io.Reader].
func (c *Conn) Read(p []byte) (int, error) { return c.file.Read(p) }

// Write implements [io.Writer].
func (c *Conn) Write(p []byte) (int, error) { return c.file.Write(p) }

// SetReadDeadline ends a Read with [os.ErrDeadlineExceeded].
func (c *Conn) SetReadDeadline(t time.Time) error { return c.file.SetReadDeadline(t) }

// SetWriteDeadline ends a Write with [os.ErrDeadlineExceeded].
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.file.SetWriteDeadline(t) }

// SyscallConn gives access to the socket.
func (c *Conn) SyscallConn() syscall.RawConn { return c.raw }

// Close closes the connection.
func (c *Conn) Close() error { return c.file.Close() }

// CloseWrite ends this side of the connection.
func (c *Conn) CloseWrite() error {
	return c.control(func(fd int) error { return unix.Shutdown(fd, unix.SHUT_WR) })
}

// Reset closes the connection with a reset (tcp(7), SO_LINGER).
func (c *Conn) Reset() error {
	err := c.control(func(fd int) error {
		return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	})
	return errors.Join(err, c.Close())
}

func (c *Conn) control(f func(fd int) error) error {
	var failed error
	err := c.raw.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}

func addrPort(s unix.Sockaddr) netip.AddrPort {
	switch s := s.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(s.Addr), uint16(s.Port)) //nolint:gosec // a port
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(s.Addr).Unmap(), uint16(s.Port)) //nolint:gosec // a port
	default:
		return netip.AddrPort{}
	}
}
