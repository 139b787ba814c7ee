// SPDX-License-Identifier: Apache-2.0

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

// Listener is a listening socket. Its methods are safe for concurrent use, except
// that only one goroutine may call Accept.
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

// NewListener takes ownership of fd, a socket that already listens.
func NewListener(fd int) (*Listener, error) {
	err := errors.Join(
		unix.SetNonblock(fd, true),
		// A response is one write or a few. None may wait for the acknowledgment of
		// the previous one.
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot prepare a listening socket: %w", err), unix.Close(fd))
	}
	l := &Listener{file: os.NewFile(uintptr(fd), "listener")}
	if l.raw, err = l.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, l.file.Close())
	}
	l.accept = func(fd uintptr) bool {
		a := &l.result
		for {
			a.fd, a.remote, a.err = nonblock.Accept(int(fd))
			// The client reset the connection in the backlog. This is not an error
			// of this host.
			if !errors.Is(a.err, unix.EINTR) && !errors.Is(a.err, unix.ECONNABORTED) {
				return !errors.Is(a.err, unix.EAGAIN)
			}
		}
	}
	return l, nil
}

// Accept waits for a connection until the deadline and attaches it to c. After an
// error c is unchanged.
func (l *Listener) Accept(c *Conn) error {
	if err := l.raw.Read(l.accept); err != nil {
		return l.translateError(err)
	}
	a := l.result
	l.result = acceptResult{}
	if a.err != nil {
		return fmt.Errorf("cannot accept a connection: %w", a.err)
	}
	return c.attach(a.fd, a.remote)
}

// SetDeadline sets the time at which Accept ends with [os.ErrDeadlineExceeded].
func (l *Listener) SetDeadline(t time.Time) error { return l.translateError(l.file.SetReadDeadline(t)) }

// translateError returns [os.ErrClosed] after Close. Package os does not wrap the
// errors of RawConn.
func (l *Listener) translateError(err error) error {
	if err != nil && l.closed.Load() {
		return os.ErrClosed
	}
	return err
}

// Close closes the socket. A waiting Accept ends with [os.ErrClosed].
func (l *Listener) Close() error {
	l.closed.Store(true)
	return l.file.Close()
}

// SyscallConn returns access to the socket.
func (l *Listener) SyscallConn() (syscall.RawConn, error) { return l.raw, nil }

// Addr returns the address that the socket listens on.
func (l *Listener) Addr() net.Addr {
	var local netip.AddrPort
	_ = l.raw.Control(func(fd uintptr) { local, _ = nonblock.LocalAddr(int(fd)) })
	return net.TCPAddrFromAddrPort(local)
}
