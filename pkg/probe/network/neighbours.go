// SPDX-License-Identifier: Apache-2.0

package network

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/probe"
)

const (
	askAgain   = 300 * time.Millisecond // between two requests
	askTimes   = 3
	listenLong = 600 * time.Millisecond // after the last request
	frameBytes = 2048                   // more than any answer has
	hardware   = 6                      // bytes of an Ethernet address
)

// neighbours asks a few times and collects who answers. It listens on also when
// one has: whether there are two is the question.
func neighbours(ctx context.Context, q *probe.NeighboursQuestion, fd int) (*probe.Neighbours, error) {
	if len(q.Own) != hardware {
		return nil, fmt.Errorf("ask the neighbours for %v: the link has no Ethernet address", q.Addr)
	}
	socket, err := take(ctx, fd)
	if err != nil {
		return nil, fmt.Errorf("ask the neighbours for %v: %w", q.Addr, err)
	}
	defer socket.Close()
	by := arp
	if q.Addr.Is6() {
		by = ndp
	}
	ask, read := by(q)
	found := &probe.Neighbours{Hardware: []string{}}
	for i := range askTimes {
		if err := ask(socket); err != nil {
			return nil, fmt.Errorf("ask the neighbours for %v: %w", q.Addr, err)
		}
		wait := askAgain
		if i == askTimes-1 {
			wait = listenLong
		}
		if err := listen(ctx, socket, wait, func(message []byte) {
			who := read(message)
			if name := net.HardwareAddr(who).String(); who != nil && !mine(q, who) &&
				!slices.Contains(found.Hardware, name) && len(found.Hardware) < probe.MaxNeighbours {
				found.Hardware = append(found.Hardware, name)
			}
		}); err != nil {
			return nil, fmt.Errorf("listen to who answers for %v: %w", q.Addr, err)
		}
	}
	return found, nil
}

// mine: a host with several links in one network hears itself on them.
func mine(q *probe.NeighboursQuestion, who []byte) bool {
	return slices.ContainsFunc(q.Mine, func(own []byte) bool { return bytes.Equal(own, who) })
}

// listen gives what comes within some time to heard.
func listen(ctx context.Context, socket *os.File, wait time.Duration, heard func([]byte)) error {
	until := time.Now().Add(wait)
	if deadline, bounded := ctx.Deadline(); bounded && deadline.Before(until) {
		until = deadline
	}
	if err := socket.SetReadDeadline(until); err != nil {
		return err
	}
	buffer := make([]byte, frameBytes)
	for {
		n, err := socket.Read(buffer)
		switch {
		case err == nil:
			heard(buffer[:n])
		case timeIsOver(err):
			return nil
		default:
			return err
		}
	}
}

// The parts of an ARP frame on Ethernet (RFC 826).
const (
	etherHeader = 14
	arpBytes    = 28
	opRequest   = 1
	opReply     = 2
)

// arp asks with the sender address 0.0.0.0, by which nobody learns anything (RFC
// 5227 section 2.1.1), and which is answered like any request (Linux,
// net/ipv4/arp.c).
func arp(q *probe.NeighboursQuestion) (ask func(*os.File) error, read func([]byte) []byte) {
	target := q.Addr.As4()
	head := []byte{0, 1, 8, 0, hardware, 4} // Ethernet, IPv4
	request := slices.Concat(
		bytes.Repeat([]byte{0xff}, hardware), q.Own, []byte{8, 6},
		head, []byte{0, opRequest}, q.Own, make([]byte, 4), make([]byte, hardware), target[:])
	ask = func(socket *os.File) error {
		_, err := socket.Write(request)
		return err
	}
	read = func(frame []byte) []byte {
		if len(frame) < etherHeader+arpBytes {
			return nil
		}
		body := frame[etherHeader : etherHeader+arpBytes]
		sender, address := body[8:14], body[14:18]
		if !bytes.Equal(body[:6], head) || body[7] != opReply || !bytes.Equal(address, target[:]) {
			return nil
		}
		return slices.Clone(sender)
	}
	return ask, read
}

// The parts of neighbour discovery (RFC 4861).
const (
	typeSolicitation   = 135
	typeAdvertisement  = 136
	optionSourceLink   = 1
	optionTargetLink   = 2
	advertisementBytes = 24
)

// ndp asks from an own address: a solicitation without one would be that of a
// host that wants the address for itself (RFC 4862 section 5.4.3).
func ndp(q *probe.NeighboursQuestion) (ask func(*os.File) error, read func([]byte) []byte) {
	target := q.Addr.As16()
	request := slices.Concat(
		[]byte{typeSolicitation, 0, 0, 0, 0, 0, 0, 0}, target[:], // the kernel sums up
		[]byte{optionSourceLink, 1}, q.Own)
	group := solicitedNode(q.Addr)
	ask = func(socket *os.File) error {
		raw, err := socket.SyscallConn()
		if err != nil {
			return err
		}
		var failed error
		if err := raw.Write(func(fd uintptr) bool {
			failed = unix.Sendto(int(fd), request, 0, &unix.SockaddrInet6{Addr: group, ZoneId: uint32(q.Link)}) //nolint:gosec // an index of the kernel's
			return !errors.Is(failed, unix.EAGAIN)
		}); err != nil {
			return err
		}
		return failed
	}
	read = func(message []byte) []byte {
		if len(message) < advertisementBytes || message[0] != typeAdvertisement || !bytes.Equal(message[8:24], target[:]) {
			return nil
		}
		return targetLink(message[advertisementBytes:])
	}
	return ask, read
}

// targetLink finds the sender's hardware address among options.
func targetLink(options []byte) []byte {
	for len(options) >= 8 {
		size := int(options[1]) * 8
		if size == 0 || size > len(options) {
			return nil
		}
		if options[0] == optionTargetLink {
			return slices.Clone(options[2 : 2+hardware])
		}
		options = options[size:]
	}
	return nil
}

// solicitedNode is the group that an address's holder is in (RFC 4291 section
// 2.7.1).
func solicitedNode(addr netip.Addr) [16]byte {
	all, group := addr.As16(), [16]byte{0: 0xff, 1: 0x02, 11: 1, 12: 0xff}
	copy(group[13:], all[13:])
	return group
}

// sum is the Internet checksum (RFC 1071).
func sum(message []byte) uint16 {
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
