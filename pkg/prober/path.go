// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/mdlayher/socket"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// PathResult is the result of [MeasurePath].
type PathResult struct {
	Small  bool // small packets come back
	Large  bool // packets of the measured size come back
	TooBig bool // a router reports that they are too large: TCP then sends smaller ones
}

const (
	smallEchoSize = 64 // bytes, headers included
	echoAttempts  = 4
	echoTimeout   = 400 * time.Millisecond // for each reply
	maxMTU        = 65535
)

// MeasurePath reports whether packets of a size, headers included, reach an address and
// come back. It sends small and large echo requests, which routers must not fragment,
// concurrently. Without the capability the error is [unix.EPERM].
func MeasurePath(ctx context.Context, to netip.Addr, mtu int) (PathResult, error) {
	if mtu <= smallEchoSize || mtu > maxMTU {
		return PathResult{}, fmt.Errorf("measure the path to %v: packets of %d bytes", to, mtu)
	}
	small, large := echo{to: to, size: smallEchoSize}, echo{to: to, size: mtu}
	var errSmall, errLarge error
	var both sync.WaitGroup
	both.Go(func() { errSmall = small.run(ctx) })
	both.Go(func() { errLarge = large.run(ctx) })
	both.Wait()
	if err := errors.Join(errSmall, errLarge); err != nil {
		return PathResult{}, fmt.Errorf("measure the path to %v: %w", to, err)
	}
	return PathResult{Small: small.answered, Large: large.answered, TooBig: large.tooBig}, nil
}

// echo sends requests of one size until one is answered.
type echo struct {
	to   netip.Addr
	size int

	answered, tooBig bool
}

// run sends a few requests: a single lost packet is not a black hole.
func (e *echo) run(ctx context.Context) error {
	open := e.open4
	if e.to.Is6() {
		open = e.open6
	}
	mark := make([]byte, 4) // other programs on this host send echo requests too
	_, _ = rand.Read(mark)
	s, request, err := open(ctx, binary.BigEndian.Uint32(mark))
	if err != nil {
		return err
	}
	defer s.Close()
	for range echoAttempts {
		_, err := s.WriteContext(ctx, request)
		if err = e.recordError(err); err == nil {
			err = e.awaitReply(ctx, s)
		}
		// A router's report about a large packet also reaches the socket for small ones.
		if err != nil || e.answered || e.tooBig && e.size > smallEchoSize {
			return err
		}
	}
	return nil
}

// awaitReply waits for a reply. It copies no byte of it: the filter accepts only replies.
func (e *echo) awaitReply(ctx context.Context, s *socket.Conn) error {
	waiting, cancel := context.WithTimeout(ctx, echoTimeout)
	defer cancel()
	for {
		_, _, err := s.Recvfrom(waiting, nil, unix.MSG_TRUNC)
		switch {
		case err == nil:
			e.answered = true
			return nil
		case errors.Is(err, context.DeadlineExceeded):
			return nil
		}
		if err := e.recordError(err); err != nil {
			return err
		}
	}
}

// recordError records what an error reports about the path. On a connected socket the
// next call returns the report of a router.
func (e *echo) recordError(err error) error {
	switch {
	case errors.Is(err, unix.EMSGSIZE):
		e.tooBig = true
		return nil
	case errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.ECONNREFUSED),
		errors.Is(err, unix.EPERM):
		return nil // no reply is a result
	default:
		return err
	}
}

// The fields of an echo request (RFC 792, RFC 4443).
const (
	markOffset     = 8
	ipv4HeaderSize = 20 // of IPv4 without options
	ipv6HeaderSize = 40
	echoRequest4   = 8
	echoReply4     = 0
	echoRequest6   = 128
	echoReply6     = 129
)

func (e *echo) open4(ctx context.Context, mark uint32) (*socket.Conn, []byte, error) {
	request := e.request(echoRequest4, ipv4HeaderSize, mark)
	binary.BigEndian.PutUint16(request[2:], internetChecksum(request)) // the kernel sets the checksum of ICMPv6
	reply := matchFields(packetField{0, 1, echoReply4}, packetField{markOffset, 4, mark})
	filter := append([]bpf.Instruction{bpf.LoadMemShift{Off: 0}}, reply...)
	s, err := openFiltered(unix.AF_INET, unix.IPPROTO_ICMP, filter, func(s *socket.Conn) error {
		_, err := s.Connect(ctx, &unix.SockaddrInet4{Addr: e.to.As4()})
		return errors.Join(err,
			// Packets must not be fragmented and must keep their full size, whatever path MTU
			// the kernel cached.
			s.SetsockoptInt(unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE))
	})
	return s, request, err
}

func (e *echo) open6(ctx context.Context, mark uint32) (*socket.Conn, []byte, error) {
	filter := matchFields(packetField{0, 1, echoReply6}, packetField{markOffset, 4, mark})
	s, err := openFiltered(unix.AF_INET6, unix.IPPROTO_ICMPV6, filter, func(s *socket.Conn) error {
		_, err := s.Connect(ctx, &unix.SockaddrInet6{Addr: e.to.As16()})
		return errors.Join(err,
			// IPV6_PMTUDISC_PROBE is not used, because a raw socket then gets no report of a
			// router (Linux, net/ipv6/raw.c).
			s.SetsockoptInt(unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO),
			s.SetsockoptInt(unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1))
	})
	return s, e.request(echoRequest6, ipv6HeaderSize, mark), err
}

// request returns a message with a sequence number, a mark, and zeros.
func (e *echo) request(kind byte, headers int, mark uint32) []byte {
	message := make([]byte, e.size-headers)
	message[0], message[7] = kind, 1
	binary.BigEndian.PutUint32(message[markOffset:], mark)
	return message
}

// internetChecksum returns the Internet checksum (RFC 1071).
func internetChecksum(message []byte) uint16 {
	var all uint32
	for ; len(message) >= 2; message = message[2:] {
		all += uint32(binary.BigEndian.Uint16(message))
	}
	if len(message) == 1 {
		all += uint32(message[0]) << 8
	}
	for all > 0xffff {
		all = all>>16 + all&0xffff
	}
	return ^uint16(all)
}
