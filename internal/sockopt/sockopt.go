// SPDX-License-Identifier: Apache-2.0

package sockopt

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// BufferSizes returns the Control function of a dialer or listener that limits the
// kernel's buffers of a connection, in bytes for each direction. The kernel doubles the
// size for its own bookkeeping (socket(7)).
func BufferSizes(size int) func(network, address string, conn syscall.RawConn) error {
	return func(_, _ string, conn syscall.RawConn) error {
		return Control(conn, func(fd int) error {
			return errors.Join(
				unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, size),
				unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, size),
			)
		})
	}
}

// Control returns the result of f with the descriptor, or the error of a closed connection.
func Control(conn syscall.RawConn, f func(fd int) error) error {
	var result error
	if err := conn.Control(func(fd uintptr) { result = f(int(fd)) }); err != nil {
		return err
	}
	return result
}

// LimitUnacknowledged ends a TCP connection with ETIMEDOUT, or with the error of the path, when
// the peer does not acknowledge bytes for a time (tcp(7), TCP_USER_TIMEOUT). The kernel
// measures from when it sends them the second time (net/ipv4/tcp_timer.c,
// retransmits_timed_out).
func LimitUnacknowledged(fd int, limit time.Duration) error {
	return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
}
