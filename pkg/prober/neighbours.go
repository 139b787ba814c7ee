// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/mdlayher/socket"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// NeighboursQuery describes a query for the hosts of a link that answer for an address.
type NeighboursQuery struct {
	Addr         netip.Addr
	LinkIndex    int
	LinkHardware []byte     // hardware address of the link
	HostHardware [][]byte   // hardware addresses of this host, LinkHardware included: ignored
	Source       netip.Addr // IPv6: an address of the link, possibly link-local
}

const (
	requestInterval = 300 * time.Millisecond
	requestCount    = 3
	lastWait        = 600 * time.Millisecond // after the last request
	maxPackets      = 64                     // more than MaxNeighbours and the links of this host send
	packetBytes     = 256                    // enough for the option in an advertisement
)

// Neighbours returns the hosts that answer for an address on a link. Without the
// capability the error is [unix.EPERM].
func (c *Client) Neighbours(ctx context.Context, q NeighboursQuery) (*protocol.NeighboursResult, error) {
	if len(q.LinkHardware) != protocol.HardwareBytes {
		return nil, fmt.Errorf("query the neighbours for %v: the link has no Ethernet address", q.Addr)
	}
	open := openARP
	if q.Addr.Is6() {
		open = openNDP
	}
	s, request, to, err := open(q)
	if err != nil {
		return nil, fmt.Errorf("open a socket for the neighbours of %v: %w", q.Addr, err)
	}
	packets, err := collectPackets(ctx, s, request, to)
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, fmt.Errorf("query the neighbours for %v: %w", q.Addr, err)
	}
	r, err := c.Query(ctx, protocol.Request{Neighbours: &protocol.NeighboursRequest{Addr: q.Addr, HostHardware: q.HostHardware, Packets: packets}})
	return r.Neighbours, err
}

// collectPackets sends a request a few times and returns the packets that the socket
// receives. It does not stop at the first reply: several hosts may answer.
func collectPackets(ctx context.Context, s *socket.Conn, request []byte, to unix.Sockaddr) (packets [][]byte, err error) {
	for i := range requestCount {
		if err := s.Sendto(ctx, request, 0, to); err != nil {
			return nil, err
		}
		wait := requestInterval
		if i == requestCount-1 {
			wait = lastWait
		}
		waiting, cancel := context.WithTimeout(ctx, wait)
		for err == nil && len(packets) < maxPackets {
			var n int
			packet := make([]byte, packetBytes)
			if n, _, err = s.Recvfrom(waiting, packet, 0); err == nil {
				packets = append(packets, packet[:n])
			}
		}
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return nil, err
		}
		err = nil
	}
	return packets, nil
}

// openARP uses the sender address 0.0.0.0: no host updates its ARP cache for it (RFC
// 5227 section 2.1.1), and Linux answers it like any request (net/ipv4/arp.c).
func openARP(q NeighboursQuery) (*socket.Conn, []byte, unix.Sockaddr, error) {
	const (
		ethernetIPv4 = 0x00010800
		lengths      = 0x0604 // of the addresses
		opRequest    = 1
		opReply      = 2
	)
	target := q.Addr.As4()
	request := slices.Concat(bytes.Repeat([]byte{0xff}, protocol.HardwareBytes), q.LinkHardware, []byte{8, 6})
	request = binary.BigEndian.AppendUint32(request, ethernetIPv4)
	request = binary.BigEndian.AppendUint32(request, lengths<<16|opRequest)
	request = slices.Concat(request, q.LinkHardware, make([]byte, 4), make([]byte, protocol.HardwareBytes), target[:])
	link := &unix.SockaddrLinklayer{
		Protocol: binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ARP)), Ifindex: q.LinkIndex,
	}
	s, err := openFiltered(unix.AF_PACKET, 0, matchFields(
		packetField{14, 4, ethernetIPv4},
		packetField{18, 4, lengths<<16 | opReply},
		packetField{28, 4, binary.BigEndian.Uint32(target[:])}, // the sender's protocol address
	), func(s *socket.Conn) error { return s.Bind(link) })
	return s, request, link, err
}

// openNDP uses an address of the link as source: a solicitation without one would be
// duplicate address detection (RFC 4862 section 5.4.3).
func openNDP(q NeighboursQuery) (*socket.Conn, []byte, unix.Sockaddr, error) {
	const (
		farthest         = 255 // hosts ignore a message with less: it was routed (RFC 4861 section 7.1)
		solicitation     = 135
		advertisement    = 136
		optionSourceLink = 1
	)
	target := q.Addr.As16()
	request := slices.Concat(
		[]byte{solicitation, 0, 0, 0, 0, 0, 0, 0}, target[:], // the kernel sets the checksum
		[]byte{optionSourceLink, 1}, q.LinkHardware)
	fields := []packetField{{0, 1, advertisement}}
	for i := uint32(0); i < 16; i += 4 {
		fields = append(fields, packetField{8 + i, 4, binary.BigEndian.Uint32(target[i:])})
	}
	s, err := openFiltered(unix.AF_INET6, unix.IPPROTO_ICMPV6, matchFields(fields...), func(s *socket.Conn) error {
		return errors.Join(
			s.SetsockoptInt(unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, farthest),
			// The kernel must not answer for an address that this host has too.
			s.SetsockoptInt(unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_LOOP, 0),
			s.SetsockoptInt(unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, q.LinkIndex),
			s.Bind(&unix.SockaddrInet6{Addr: q.Source.As16(), ZoneId: linkZone(q.Source, q.LinkIndex)}),
		)
	})
	return s, request, &unix.SockaddrInet6{Addr: solicitedNode(q.Addr), ZoneId: uint32(q.LinkIndex)}, err //nolint:gosec // an index of the kernel's
}

// linkZone returns the link's index for an address that requires it.
func linkZone(addr netip.Addr, link int) uint32 {
	if addr.IsLinkLocalUnicast() {
		return uint32(link) //nolint:gosec // an index of the kernel's
	}
	return 0
}

// solicitedNode returns the solicited-node multicast group of an address (RFC 4291
// section 2.7.1).
func solicitedNode(addr netip.Addr) [16]byte {
	all, group := addr.As16(), [16]byte{0: 0xff, 1: 0x02, 11: 1, 12: 0xff}
	copy(group[13:], all[13:])
	return group
}
