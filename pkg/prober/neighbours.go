// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/mdlayher/socket"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// NeighboursRequest asks which hosts of a link answer for an address: by ARP, or
// by neighbour discovery. [Client.Neighbours] sends the requests, and the child
// parses the answers.
type NeighboursRequest struct {
	Addr         netip.Addr `json:"addr"`
	LinkIndex    int        `json:"-"`    // its index
	LinkHardware []byte     `json:"-"`    // the link's own hardware address
	HostHardware [][]byte   `json:"mine"` // this host's hardware addresses, that one among them: not to be heeded
	Source       netip.Addr `json:"-"`    // IPv6: an own address of the link, be it link-local

	// Packets are the answers: Ethernet frames, or ICMPv6 messages. Client.Neighbours
	// sets them.
	Packets [][]byte `json:"packets"`
}

// NeighboursResult are those that have answered within the question's time.
type NeighboursResult struct {
	Hardware []string `json:"hardware"` // addresses in the usual form, each once, the first 8
}

// MaxNeighbours bounds the answers of a [Neighbours].
const MaxNeighbours = 8

func (n *NeighboursResult) sanitize() {
	n.Hardware = n.Hardware[:min(len(n.Hardware), MaxNeighbours)]
}

func (n *NeighboursResult) validate() error {
	for _, text := range n.Hardware {
		if address, err := net.ParseMAC(text); err != nil || len(address) != hardwareBytes || address.String() != text {
			return fmt.Errorf("%w: a hardware address that is none", cause.ErrInvalid)
		}
	}
	return nil
}

const (
	requestInterval = 300 * time.Millisecond
	requestCount    = 3
	lastWait        = 600 * time.Millisecond // after the last request
	maxPackets      = 64                     // more than MaxNeighbours and this host's links send
	packetBytes     = 256                    // enough for the option in an advertisement
	hardwareBytes   = 6                      // of an Ethernet address
)

// NeighboursResult asks who answers for an address on a link. Without the capability
// the error is [unix.EPERM].
func (c *Client) Neighbours(ctx context.Context, q NeighboursRequest) (*NeighboursResult, error) {
	if len(q.LinkHardware) != hardwareBytes {
		return nil, fmt.Errorf("ask the neighbours for %v: the link has no Ethernet address", q.Addr)
	}
	open := openARP
	if q.Addr.Is6() {
		open = openNDP
	}
	s, request, to, err := open(q)
	if err != nil {
		return nil, fmt.Errorf("open a socket to ask the neighbours for %v: %w", q.Addr, err)
	}
	q.Packets, err = collectPackets(ctx, s, request, to)
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, fmt.Errorf("ask the neighbours for %v: %w", q.Addr, err)
	}
	a, err := c.Query(ctx, Request{Neighbours: &q})
	return a.Neighbours, err
}

// collectPackets sends a request a few times and returns what the socket receives. One
// answer does not end it: whether there are two is the question.
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

// openARP asks with the sender address 0.0.0.0, by which nobody learns anything (RFC
// 5227 section 2.1.1), and which is answered like any request (Linux,
// net/ipv4/arp.c).
func openARP(q NeighboursRequest) (*socket.Conn, []byte, unix.Sockaddr, error) {
	const (
		ethernetIPv4 = 0x00010800
		lengths      = 0x0604 // of the addresses
		opRequest    = 1
		opReply      = 2
	)
	target := q.Addr.As4()
	request := slices.Concat(bytes.Repeat([]byte{0xff}, hardwareBytes), q.LinkHardware, []byte{8, 6})
	request = binary.BigEndian.AppendUint32(request, ethernetIPv4)
	request = binary.BigEndian.AppendUint32(request, lengths<<16|opRequest)
	request = slices.Concat(request, q.LinkHardware, make([]byte, 4), make([]byte, hardwareBytes), target[:])
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

// openNDP asks from an own address: a solicitation without one would be that of a
// host that wants the address for itself (RFC 4862 section 5.4.3).
func openNDP(q NeighboursRequest) (*socket.Conn, []byte, unix.Sockaddr, error) {
	const (
		farthest         = 255 // else the message is not heeded: it was routed (RFC 4861 section 7.1)
		solicitation     = 135
		advertisement    = 136
		optionSourceLink = 1
	)
	target := q.Addr.As16()
	request := slices.Concat(
		[]byte{solicitation, 0, 0, 0, 0, 0, 0, 0}, target[:], // the kernel sums up
		[]byte{optionSourceLink, 1}, q.LinkHardware)
	fields := []packetField{{0, 1, advertisement}}
	for i := uint32(0); i < 16; i += 4 {
		fields = append(fields, packetField{8 + i, 4, binary.BigEndian.Uint32(target[i:])})
	}
	s, err := openFiltered(unix.AF_INET6, unix.IPPROTO_ICMPV6, matchFields(fields...), func(s *socket.Conn) error {
		return errors.Join(
			s.SetsockoptInt(unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, farthest),
			// The kernel is not to answer for an address that this host has too.
			s.SetsockoptInt(unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_LOOP, 0),
			s.SetsockoptInt(unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, q.LinkIndex),
			s.Bind(&unix.SockaddrInet6{Addr: q.Source.As16(), ZoneId: linkZone(q.Source, q.LinkIndex)}),
		)
	})
	return s, request, &unix.SockaddrInet6{Addr: solicitedNode(q.Addr), ZoneId: uint32(q.LinkIndex)}, err //nolint:gosec // an index of the kernel's
}

// linkZone is a link's index where an address means nothing without.
func linkZone(addr netip.Addr, link int) uint32 {
	if addr.IsLinkLocalUnicast() {
		return uint32(link) //nolint:gosec // an index of the kernel's
	}
	return 0
}

// solicitedNode is the group that an address's holder is in (RFC 4291 section
// 2.7.1).
func solicitedNode(addr netip.Addr) [16]byte {
	all, group := addr.As16(), [16]byte{0: 0xff, 1: 0x02, 11: 1, 12: 0xff}
	copy(group[13:], all[13:])
	return group
}
