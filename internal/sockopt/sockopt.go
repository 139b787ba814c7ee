// SPDX-License-Identifier: Apache-2.0

package sockopt

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// BufferSizes returns the Control function of a dialer or listener that limits the
// kernel's buffers of a connection, in bytes for each direction. The kernel doubles the
// size for its own bookkeeping (socket(7)).
func BufferSizes(size int) func(network, address string, conn syscall.RawConn) error {
	return func(_, _ string, conn syscall.RawConn) error {
		var set error
		err := conn.Control(func(fd uintptr) {
			set = errors.Join(
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, size),
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, size),
			)
		})
		return errors.Join(err, set)
	}
}
