// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Buffers of the netlink socket in bytes. A rebuild is some 6 KiB and is
// answered by one message a rule; the space is for sets with many elements.
const (
	receiveBuffer = 512 << 10
	sendBuffer    = 256 << 10
)

// socket is one lasting netlink connection.
type socket struct {
	nft   *nftables.Conn
	port  uint32 // its netlink port id, by which the kernel knows the owner of a table
	close func() error
}

// openSocket opens a socket in the calling thread's network namespace.
func openSocket() (*socket, error) {
	var raw *netlink.Conn
	nft, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *netlink.Conn) error {
		raw = c
		return setSocketOptions(c)
	}))
	if err != nil {
		if raw != nil {
			_ = raw.Close()
		}
		return nil, fmt.Errorf("open a netfilter netlink socket: %w", err)
	}
	return &socket{nft: nft, port: raw.PID(), close: raw.Close}, nil
}

func setSocketOptions(c *netlink.Conn) error {
	if err := checkDescriptor(c); err != nil {
		return err
	}
	return errors.Join(
		c.SetReadBuffer(receiveBuffer),
		c.SetWriteBuffer(sendBuffer),
		// Makes the kernel say in words what it refused.
		c.SetOption(netlink.ExtendedAcknowledge, true),
	)
}

// checkDescriptor refuses a descriptor that does not fit into an fd_set: the
// nftables library waits with pselect and panics on one.
func checkDescriptor(c syscall.Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var number uintptr
	if err := raw.Control(func(fd uintptr) { number = fd }); err != nil {
		return err
	}
	if number >= unix.FD_SETSIZE {
		return fmt.Errorf("it got the file descriptor %d, and the nftables library takes those below %d only: "+
			"open it before the process holds so many", number, unix.FD_SETSIZE)
	}
	return nil
}

// isSocketError reports whether the socket itself failed, in contrast to a request
// that the kernel answered with an error. Only the latter is recognised for sure:
// the netlink library gives the kernel's error number as such and wraps the
// errors of system calls, and the nftables library flattens some of those to text.
func isSocketError(err error) bool {
	if err == nil {
		return false
	}
	var answer *netlink.OpError
	if !errors.As(err, &answer) {
		return true
	}
	_, isErrno := answer.Err.(unix.Errno) //nolint:errorlint // wrapped means that it is not the kernel's answer
	return !isErrno
}
