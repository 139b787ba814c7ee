// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// These sockets take CAP_NET_RAW to open and none to use: this process opens
// them, and the child sends and reads.

// Neighbours asks who answers for an address on a link. Without the capability
// the error is [unix.EPERM].
func (c *Client) Neighbours(ctx context.Context, q NeighboursQuestion) (*Neighbours, error) {
	open := arpSocket
	if q.Addr.Is6() {
		open = ndpSocket
	}
	fd, err := open(q)
	if err != nil {
		return nil, fmt.Errorf("open a socket to ask the neighbours for %v: %w", q.Addr, err)
	}
	a, err := c.Ask(ctx, Question{Neighbours: &q}, fd)
	return a.Neighbours, err
}

// Path asks whether packets of a size reach an address. Without the capability
// the error is [unix.EPERM].
func (c *Client) Path(ctx context.Context, to netip.Addr, mtu int) (*Path, error) {
	open := echoSocket4
	if to.Is6() {
		open = echoSocket6
	}
	fd, err := open(to)
	if err != nil {
		return nil, fmt.Errorf("open a socket for echo requests to %v: %w", to, err)
	}
	a, err := c.Ask(ctx, Question{Path: &PathQuestion{IPv6: to.Is6(), MTU: mtu}}, fd)
	return a.Path, err
}

const rawSocket = unix.SOCK_RAW | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK

// prepared closes a socket for which a setting was refused.
func prepared(fd int, settings ...error) (int, error) {
	if err := errors.Join(settings...); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func arpSocket(q NeighboursQuestion) (int, error) {
	// Without a protocol it takes nothing until it is bound to the link.
	fd, err := unix.Socket(unix.AF_PACKET, rawSocket, 0)
	if err != nil {
		return -1, err
	}
	protocol := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ARP))
	return prepared(fd, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: q.Link}))
}

func ndpSocket(q NeighboursQuestion) (int, error) {
	fd, err := unix.Socket(unix.AF_INET6, rawSocket, unix.IPPROTO_ICMPV6)
	if err != nil {
		return -1, err
	}
	const (
		farthest      = 255 // else the message is not heeded: it was routed (RFC 4861 section 7.1)
		advertisement = 136
	)
	only := unix.ICMPv6Filter{} // a bit that is set keeps a type out
	for i := range only.Data {
		only.Data[i] = ^uint32(0)
	}
	only.Data[advertisement/32] &^= 1 << (advertisement % 32)
	return prepared(
		fd,
		unix.SetsockoptICMPv6Filter(fd, unix.SOL_ICMPV6, unix.ICMPV6_FILTER, &only),
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, farthest),
		// The kernel is not to answer for an address that this host has too.
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_LOOP, 0),
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, q.Link),
		unix.Bind(fd, &unix.SockaddrInet6{Addr: q.Source.As16(), ZoneId: zone(q.Source, q.Link)}),
	)
}

// zone is a link's index where an address means nothing without.
func zone(addr netip.Addr, link int) uint32 {
	if addr.IsLinkLocalUnicast() {
		return uint32(link) //nolint:gosec // an index of the kernel's
	}
	return 0
}

func echoSocket4(to netip.Addr) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, rawSocket, unix.IPPROTO_ICMP)
	if err != nil {
		return -1, err
	}
	return prepared(
		fd,
		// Whole, and as large as is asked for, whatever was learnt before.
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE),
		unix.Connect(fd, &unix.SockaddrInet4{Addr: to.As4()}),
	)
}

func echoSocket6(to netip.Addr) (int, error) {
	fd, err := unix.Socket(unix.AF_INET6, rawSocket, unix.IPPROTO_ICMPV6)
	if err != nil {
		return -1, err
	}
	return prepared(
		fd,
		// Not IPV6_PMTUDISC_PROBE, with which a raw socket is not told what a router
		// says (Linux, net/ipv6/raw.c).
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO),
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1),
		unix.Connect(fd, &unix.SockaddrInet6{Addr: to.As16()}),
	)
}
