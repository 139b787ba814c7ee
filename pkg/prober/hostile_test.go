// SPDX-License-Identifier: Apache-2.0

package prober_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// TestMain also runs the hostile child. It has no system-call filter: the kernel refuses
// its attacks because it has no capability.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == child.Prober {
		_ = runHostileChild()
		os.Exit(1)
	}
	nstest.Main(m)
}

// runHostileChild reports, for each request, the packet and raw sockets that this process
// has or can open, and the results of attacks with them.
func runHostileChild() error {
	conn, err := child.Connect()
	if err != nil {
		return err
	}
	for {
		var q protocol.Request
		if _, err := conn.Receive(&q); err != nil {
			return err
		}
		report := []string{fmt.Sprintf("user %d", os.Geteuid())}
		for fd := range 256 {
			domain, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
			if kind, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); domain != unix.AF_PACKET && kind != unix.SOCK_RAW {
				continue
			}
			for _, a := range attacks() {
				report = append(report, fmt.Sprintf("%s: %v", a.name, a.do(fd)))
			}
		}
		for _, family := range []int{unix.AF_PACKET, unix.AF_INET, unix.AF_INET6} {
			_, err := unix.Socket(family, unix.SOCK_RAW, unix.IPPROTO_ICMP)
			report = append(report, fmt.Sprintf("open family %d: %v", family, err))
		}
		// The protocol carries no text of a child.
		if err := os.WriteFile(reportPath(os.Getppid()), []byte(strings.Join(report, "; ")), 0o600); err != nil {
			return err
		}
		if err := conn.Send(protocol.Response{ID: q.ID, Neighbours: &protocol.NeighboursResult{Hardware: []string{inventedHardware}}}); err != nil {
			return err
		}
	}
}

const inventedHardware = "02:00:00:00:00:01"

// reportPath returns the file in which the child of a process writes its results.
func reportPath(parent int) string { return fmt.Sprintf("/tmp/http01-hostile-%d", parent) }

type attack struct {
	name string
	do   func(fd int) error
}

func attacks() []attack {
	every := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
	pass := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 65535}
	invented := func(link string) func(int) error {
		return func(fd int) error {
			l, err := net.InterfaceByName(link)
			if err != nil {
				return err
			}
			return unix.Sendto(fd, make([]byte, 60), 0, &unix.SockaddrLinklayer{Protocol: every, Ifindex: l.Index})
		}
	}
	return []attack{
		{"rebind", func(fd int) error { return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: every}) }},
		{"capture", capture},
		{"detach the filter", func(fd int) error {
			return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
		}},
		{"attach a filter", func(fd int) error {
			return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &pass})
		}},
		{"promiscuous", func(fd int) error {
			return unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &unix.PacketMreq{Ifindex: 1, Type: unix.PACKET_MR_PROMISC})
		}},
		{"send on near", invented("near")},
		{"send on lo", invented("lo")},
	}
}

// capture fails when fd does not receive a datagram that another process sends.
func capture(fd int) error {
	const secret = "a secret of others"
	other, err := net.Dial("udp4", "127.0.0.1:9")
	if err != nil {
		return err
	}
	defer other.Close()
	if _, err := other.Write([]byte(secret)); err != nil {
		return err
	}
	frame := make([]byte, 2048)
	for {
		n, _, err := unix.Recvfrom(fd, frame, unix.MSG_DONTWAIT)
		if err != nil || strings.Contains(string(frame[:n]), secret) {
			return err
		}
	}
}

// TestHostileChild: while the child handles a request about neighbours, it has no packet
// or raw socket and cannot open one. Its response is a hardware address. It gets no
// requests about paths.
func TestHostileChild(t *testing.T) {
	nstest.Require(t)
	for _, command := range []string{
		"link add near type veth peer name far", "link set near up", "link set far up", "address add 2001:db8::1/64 dev near nodad",
		"address add 192.0.2.7/32 dev far", "address add 2001:db8::7/128 dev far nodad",
	} {
		nstest.Run(t, "ip", strings.Fields(command)...)
	}
	link, err := net.InterfaceByName("near")
	if err != nil {
		t.Fatal(err)
	}
	c, err := prober.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(t.Context(), nstest.Timeout)
	defer cancel()
	const want = "user 65520; open family 17: operation not permitted; open family 2: operation not permitted; open family 10: operation not permitted"
	for _, addr := range []string{"192.0.2.7", "2001:db8::7"} {
		found, err := c.Neighbours(ctx, prober.NeighboursQuery{
			Addr: netip.MustParseAddr(addr), LinkIndex: link.Index, LinkHardware: link.HardwareAddr, Source: netip.MustParseAddr("2001:db8::1"),
		})
		if err != nil {
			t.Fatal(err)
		}
		report, err := os.ReadFile(reportPath(os.Getpid()))
		if err = errors.Join(err, os.Remove(reportPath(os.Getpid()))); err != nil || string(report) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", addr, err, report, want)
		}
		if diff := cmp.Diff(&protocol.NeighboursResult{Hardware: []string{inventedHardware}}, found); diff != "" {
			t.Errorf("%s (-want +got):\n%s", addr, diff)
		}
	}
}
