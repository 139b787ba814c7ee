// SPDX-License-Identifier: Apache-2.0

//go:build linux

package trace

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
)

// TestFlood: of a flood of SYNs, a limited number of packets is traced, and no event is lost.
func TestFlood(t *testing.T) {
	h := newTestHost(t)
	load(t, serviceTable)
	request(h.client, vip4) // ARP
	const sent, chains = 20_000, 3
	begin := time.Now()
	packets := h.collect(t, Options{Held: []netip.Addr{vip4}}, func() { flood(t, h.client, 101, sent) })
	seconds := int(time.Since(begin)/time.Second) + 1
	if limit := chains * (burst + synPerSecond*seconds); len(packets) < burst || len(packets) > limit {
		t.Errorf("%d packets traced of %d, want %d to %d", len(packets), sent, burst, limit)
	}
}

// flood sends SYNs to port 80 of the VIP, from many ports of 100 addresses, of which first is the
// last byte of the first one.
func flood(t testing.TB, n *nstest.Netns, first, count int) {
	t.Helper()
	n.In(func() {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(fd)
		packet := make([]byte, 40) // RFC 791, RFC 9293
		copy(packet, []byte{0x45, 0, 0, 40, 0, 0, 0, 0, 64, unix.IPPROTO_TCP, 0, 0, 192, 0, 2, 0})
		copy(packet[16:], vip4.AsSlice())
		tcp := packet[20:]
		tcp[3], tcp[12], tcp[13] = webPort, 5<<4, 2
		for i := range count {
			packet[15] = byte(first + i%100)
			binary.BigEndian.PutUint16(tcp, uint16(1024+i/100))
			binary.BigEndian.PutUint16(tcp[16:], 0)
			binary.BigEndian.PutUint16(tcp[16:], tcpChecksum(packet))
			if err := unix.Sendto(fd, packet, 0, &unix.SockaddrInet4{Addr: vip4.As4()}); err != nil {
				t.Error(err)
				return
			}
		}
	})
}

// tcpChecksum returns the checksum of a TCP packet without payload over IPv4: of the addresses, the
// protocol, the length and the header.
func tcpChecksum(packet []byte) uint16 {
	sum := uint32(unix.IPPROTO_TCP + len(packet) - 20)
	for b := packet[12:]; len(b) > 0; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
