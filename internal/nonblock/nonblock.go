// SPDX-License-Identifier: Apache-2.0

package nonblock

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system calls are raw, so that the scheduler does not see them. Packages syscall and
// net announce every call to the scheduler, which is needed only for a call that blocks.
// Its monitor thread then looks for long calls, as often as every 20 µs under load, and
// took a tenth of the proxy's time. Raw calls also allocate no memory for addresses, as
// package unix does.

// Accept accepts a connection, nonblocking and closed on exec. It returns the address of
// the client.
func Accept(fd int) (accepted int, remote netip.AddrPort, err error) {
	a := newAddress()
	n, _, errno := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(&a.raw)), uintptr(unsafe.Pointer(&a.size)), //nolint:gosec // accept4(2) takes pointers
		unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	if errno != 0 {
		return -1, remote, errno
	}
	return int(n), a.addrPort(), nil
}

// LocalAddr returns the local address of a socket.
func LocalAddr(fd int) (local netip.AddrPort, err error) {
	a := newAddress()
	_, _, errno := unix.RawSyscall(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(&a.raw)), uintptr(unsafe.Pointer(&a.size))) //nolint:gosec // getsockname(2) takes pointers
	if errno != 0 {
		return local, errno
	}
	return a.addrPort(), nil
}

// Read is read(2), repeated when a signal interrupts it. It returns 0 at the end.
func Read(fd int, p []byte) (int, error) { return retryInterrupted(unix.SYS_READ, fd, p) }

// Write is write(2), repeated when a signal interrupts it.
func Write(fd int, p []byte) (int, error) { return retryInterrupted(unix.SYS_WRITE, fd, p) }

func retryInterrupted(call uintptr, fd int, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		n, _, errno := unix.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))) //nolint:gosec // read(2) and write(2) take pointers
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// Peek returns the result that a read would have: bytes, the end (0 and no error), or
// EAGAIN. It consumes nothing.
func Peek(fd int) (int, error) {
	var one [1]byte
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&one)), 1, unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0) //nolint:gosec // recvfrom(2) takes pointers
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// Close is close(2) of a socket without SO_LINGER, which does not block.
func Close(fd int) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// address holds a socket address of either family.
type address struct {
	raw  unix.RawSockaddrInet6
	size uint32
}

func newAddress() address { return address{size: unix.SizeofSockaddrInet6} }

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
