// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// errNoSocket: to open one takes a capability, so the one that asks has to.
var errNoSocket = errors.New("the question came without its socket")

// take makes a file of the socket that came with a question; it does not block
// and ends with ctx's deadline. The file's end is not the descriptor's, which the
// caller has.
func take(ctx context.Context, fd int) (*os.File, error) {
	if fd < 0 {
		return nil, errNoSocket
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("take the socket: %w", err)
	}
	socket := os.NewFile(uintptr(own), "socket")
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return socket, nil
	}
	if err := socket.SetDeadline(deadline); err != nil {
		return nil, errors.Join(fmt.Errorf("bound the socket: %w", err), socket.Close())
	}
	return socket, nil
}

// timeIsOver reports whether a read ended because its time was over, rather than
// because of the network.
func timeIsOver(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
