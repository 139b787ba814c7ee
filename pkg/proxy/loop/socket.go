// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// PrepareListener makes a listening socket nonblocking. Its connections inherit
// TCP_NODELAY: a response is one write or a few, and none may wait for the acknowledgment
// of the previous one.
func PrepareListener(fd int) error {
	err := errors.Join(unix.SetNonblock(fd, true), unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	if err != nil {
		return fmt.Errorf("cannot prepare a listening socket: %w", err)
	}
	return nil
}

// Accept accepts a connection, nonblocking and closed on exec. It returns the address of
// the client, unmapped.
func Accept(fd int) (accepted int, remote netip.AddrPort, err error) {
	for {
		a := address{size: unix.SizeofSockaddrInet6}
		n, _, errno := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(&a.raw)), uintptr(unsafe.Pointer(&a.size)), //nolint:gosec // accept4(2) takes pointers
			unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
		switch errno {
		case 0:
			return int(n), a.addrPort(), nil
		case unix.EINTR, unix.ECONNABORTED: // the client reset the connection in the backlog
		default:
			return -1, remote, errno
		}
	}
}

// LocalAddr returns the local address of a socket, unmapped.
func LocalAddr(fd int) netip.AddrPort {
	a := address{size: unix.SizeofSockaddrInet6}
	_, _, errno := unix.RawSyscall(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(&a.raw)), uintptr(unsafe.Pointer(&a.size))) //nolint:gosec // getsockname(2) takes pointers
	if errno != 0 {
		return netip.AddrPort{}
	}
	return a.addrPort()
}

// Read is read(2). At the end it returns 0 and no error.
func Read(fd int, p []byte) (int, error) { return transfer(unix.SYS_READ, fd, p) }

// Write is write(2). It returns fewer bytes than it got, or EAGAIN, if the socket's buffer
// is full.
func Write(fd int, p []byte) (int, error) { return transfer(unix.SYS_WRITE, fd, p) }

func transfer(call uintptr, fd int, p []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))) //nolint:gosec // read(2) and write(2) take pointers
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, unix.EAGAIN // an interface value that exists
		default:
			return 0, errno
		}
	}
}

// HasUnread reports whether bytes arrived. It may be called from any thread.
func HasUnread(fd int) bool {
	var one [1]byte
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&one)), 1, unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0) //nolint:gosec // recvfrom(2) takes pointers
	return errno == 0 && n > 0
}

// Close is close(2) of a socket without SO_LINGER, which does not block.
func Close(fd int) {
	_, _, errno := unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0)
	_ = errno // the descriptor is free in any case (close(2))
}

// CloseWrite shuts down the sending side.
func CloseWrite(fd int) error { return unix.Shutdown(fd, unix.SHUT_WR) }

// ResetOnClose makes Close send a reset (tcp(7), SO_LINGER).
func ResetOnClose(fd int) { _ = resetOnClose(fd) }

func resetOnClose(fd int) error {
	return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}

// Connect begins a connection with buffers of a size in bytes for each direction; the kernel
// doubles it (socket(7)). When the connection is ready for writing, ConnectResult returns how
// the attempt ended. Closing it sends a reset: otherwise its port would stay in use for a
// minute (TIME_WAIT), and its entry in connection tracking for two. Nobody needs what is unsent
// by then.
//
// The socket is not bound before. Its port would be taken for all destinations.
func Connect(to netip.AddrPort, buffer int) (fd int, err error) {
	family, address := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Addr: to.Addr().As16(), Port: int(to.Port())})
	if to.Addr().Is4() {
		family, address = unix.AF_INET, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}
	}
	if fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, err
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, buffer),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		resetOnClose(fd),
	)
	if err == nil {
		if err = unix.Connect(fd, address); err == nil || errors.Is(err, unix.EINPROGRESS) {
			return fd, nil
		}
	}
	Close(fd)
	return -1, err
}

// ConnectResult returns the error of a connection attempt, nil if it succeeded.
func ConnectResult(fd int) error {
	number, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && number != 0 {
		err = unix.Errno(number)
	}
	return err
}

// address holds a socket address of either family.
type address struct {
	raw  unix.RawSockaddrInet6
	size uint32
}

// addrPort returns the address that the kernel wrote; an IPv4-mapped one as IPv4 (ip(7), ipv6(7)).
func (a *address) addrPort() netip.AddrPort {
	var b [2]byte
	binary.NativeEndian.PutUint16(b[:], a.raw.Port)
	port := binary.BigEndian.Uint16(b[:])
	switch a.raw.Family {
	case unix.AF_INET:
		four := (*unix.RawSockaddrInet4)(unsafe.Pointer(&a.raw)) //nolint:gosec // the shorter of the two, which share their first fields
		return netip.AddrPortFrom(netip.AddrFrom4(four.Addr), port)
	case unix.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.raw.Addr).Unmap(), port)
	default:
		return netip.AddrPort{}
	}
}
