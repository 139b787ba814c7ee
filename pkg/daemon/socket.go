// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// listen makes a listening socket on a port of every address. It is not in this
// process's poller: the gate alone is woken by connections.
func listen(port uint16) (fd int, err error) {
	// The conversations are short and bounded: TCP keep-alive would be set up
	// for nothing.
	config := net.ListenConfig{KeepAlive: -1, Control: smallBuffers}
	// No protocol on a public port that the table says nothing about.
	config.SetMultipathTCP(false)
	ln, err := config.Listen(context.Background(), "tcp", net.JoinHostPort("", strconv.Itoa(int(port))))
	if err != nil {
		return -1, err
	}
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return -1, errors.Join(fmt.Errorf("the listener is a %T", ln), ln.Close())
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return -1, errors.Join(err, ln.Close())
	}
	var duplicate error
	err = raw.Control(func(old uintptr) { fd, duplicate = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, duplicate, ln.Close()); err != nil {
		return -1, fmt.Errorf("keep the socket: %w", err)
	}
	return fd, nil
}

// socketBuffer bounds what the kernel keeps for one client in each direction:
// a head has 8 KiB, an answer hardly more than its fields. Left to themselves
// the buffers of a few thousand hostile clients would grow to gigabytes.
const socketBuffer = 16 << 10

// smallBuffers is set on the listener, before listen: accepted sockets inherit
// it, and the window is advertised accordingly (tcp(7), SO_RCVBUF).
func smallBuffers(_, _ string, conn syscall.RawConn) error {
	var set error
	err := conn.Control(func(fd uintptr) {
		set = errors.Join(
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, socketBuffer),
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, socketBuffer),
		)
	})
	return errors.Join(err, set)
}
