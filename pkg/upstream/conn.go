// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// socketBuffer is asked of the kernel for each direction; it takes twice as much
// (socket(7)). A request head fits, and a body that the client is slow to read
// waits at the router instead of in this host's memory.
const socketBuffer = 8 << 10

// newDialer returns what opens connections to the ingress. They are short: TCP
// keep-alive would be set up for nothing.
func newDialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, KeepAlive: -1, Control: boundBuffers}
}

func boundBuffers(_, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = errors.Join(
			syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, socketBuffer),
			syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, socketBuffer),
		)
	})
	return errors.Join(err, failed)
}

// conn is one connection to an ingress address.
type conn struct {
	*net.TCPConn
	addr  netip.AddrPort
	route *route    // under which it was opened
	since time.Time // when it became idle
	raw   syscall.RawConn
	peek  func(fd uintptr) bool // made once, so that a check allocates nothing
	quiet bool                  // what the last peek found
}

func newConn(tcp *net.TCPConn, addr netip.AddrPort, r *route) (*conn, error) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &conn{TCPConn: tcp, addr: addr, route: r, raw: raw}
	c.peek = func(fd uintptr) bool {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		c.quiet = errors.Is(err, syscall.EAGAIN)
		return true
	}
	return c, nil
}

// alive reports whether an idle connection can take a request: neither ended,
// nor holding bytes that nobody asked for, which would be read as the next
// answer.
func (c *conn) alive() bool {
	c.quiet = false
	// A deadline of the exchange before would fail the read.
	if c.SetDeadline(time.Time{}) != nil || c.raw.Read(c.peek) != nil {
		return false
	}
	return c.quiet
}
