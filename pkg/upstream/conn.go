// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"
)

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
