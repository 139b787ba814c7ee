// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Three system calls as package unix has them, but without the memory that it
// allocates for addresses: they are made for every connection.

// socketAddress is room for the address of either family.
type socketAddress struct {
	raw  unix.RawSockaddrInet6
	size uint32
}

func newSocketAddress() socketAddress {
	return socketAddress{size: unix.SizeofSockaddrInet6}
}

// addrPort is what the kernel has filled in; IPv4 as such (ip(7), ipv6(7)).
func (a *socketAddress) addrPort() netip.AddrPort {
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

func accept(fd int) (accepted int, remote netip.AddrPort, err error) {
	a := newSocketAddress()
	n, _, errno := unix.Syscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(&a.raw)), uintptr(unsafe.Pointer(&a.size)), //nolint:gosec // accept4(2) takes pointers
		unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	if errno != 0 {
		return -1, remote, errno
	}
	return int(n), a.addrPort(), nil
}

func localAddress(fd int) (local netip.AddrPort, err error) {
	a := newSocketAddress()
	_, _, errno := unix.Syscall(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(&a.raw)), uintptr(unsafe.Pointer(&a.size))) //nolint:gosec // so does getsockname(2)
	if errno != 0 {
		return local, errno
	}
	return a.addrPort(), nil
}

// unread reports whether there is something to read.
func unread(fd int) bool {
	var one [1]byte
	n, _, errno := unix.Syscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&one)), 1, unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0) //nolint:gosec // and recvfrom(2)
	return errno == 0 && n > 0
}
