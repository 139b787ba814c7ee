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

	"github.com/http01-proxyd/http01-proxyd/internal/nonblock"
)

// Listener is a listening socket. Its methods may be called from many
// goroutines, Accept from one.
type Listener struct {
	file   *os.File
	raw    syscall.RawConn
	accept func(fd uintptr) bool
	result acceptResult
	closed atomic.Bool
}

type acceptResult struct {
	fd     int
	remote netip.AddrPort
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
		a := &l.result
		for {
			a.fd, a.remote, a.err = nonblock.Accept(int(fd))
			// A connection that was reset in the backlog is no failure of ours.
			if !errors.Is(a.err, unix.EINTR) && !errors.Is(a.err, unix.ECONNABORTED) {
				return !errors.Is(a.err, unix.EAGAIN)
			}
		}
	}
	return l, nil
}

// Accept waits for a connection, until the deadline, and makes c that. After an
// error c is as before.
func (l *Listener) Accept(c *Conn) error {
	if err := l.raw.Read(l.accept); err != nil {
		return l.translateError(err)
	}
	a := l.result
	l.result = acceptResult{}
	if a.err != nil {
		return fmt.Errorf("accept: %w", a.err)
	}
	return c.attach(a.fd, a.remote)
}

// SetDeadline ends an Accept with [os.ErrDeadlineExceeded].
func (l *Listener) SetDeadline(t time.Time) error { return l.translateError(l.file.SetReadDeadline(t)) }

// translateError names the end of the socket: os does not, of what it does not wrap.
func (l *Listener) translateError(err error) error {
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
	var local netip.AddrPort
	_ = l.raw.Control(func(fd uintptr) { local, _ = nonblock.LocalAddr(int(fd)) })
	return net.TCPAddrFromAddrPort(local)
}
