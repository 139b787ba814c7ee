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

// Buffer sizes of the netlink socket in bytes. A rebuild takes about 6 KiB and is answered by
// one message per rule. The rest is for sets with many elements.
const (
	receiveBuffer = 512 << 10
	sendBuffer    = 256 << 10
)

// socket is one netlink connection that stays open.
type socket struct {
	nft   *nftables.Conn
	port  uint32 // its netlink port ID, which identifies the owner of a table
	close func() error
}

// openSocket opens a socket in the network namespace of the calling thread.
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
		// The kernel then adds a text to its errors.
		c.SetOption(netlink.ExtendedAcknowledge, true),
	)
}

// checkDescriptor rejects a descriptor that does not fit into an fd_set: the nftables library
// calls pselect and panics on such a descriptor.
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
		return fmt.Errorf("file descriptor %d is too high, the nftables library supports descriptors below %d: "+
			"open the connection before the process opens many files", number, unix.FD_SETSIZE)
	}
	return nil
}

// isSocketError reports whether the socket itself failed, in contrast to a request that the
// kernel answered with an error. Only an error of the kernel is detected reliably: the netlink library
// returns the kernel's error number as it is and wraps errors of system calls, and the
// nftables library converts some of those to text.
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
