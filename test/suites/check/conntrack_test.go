// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// From linux/netfilter/nfnetlink_conntrack.h and nf_conntrack_common.h.
const (
	ctNew, ctDelete                       = unix.NFNL_SUBSYS_CTNETLINK << 8, unix.NFNL_SUBSYS_CTNETLINK<<8 | 2
	ctOriginal, ctReply, ctStatus, ctTime = 1, 2, 3, 7
	tupleIP, tupleProto                   = 1, 2
	ipSource, ipDestination               = 1, 2
	protoNumber, protoSource, protoDest   = 1, 2, 3
	seenReplyAssuredConfirmed             = 2 | 4 | 8
)

// conntrackTable fills the connection tracking table of a node.
type conntrackTable struct {
	t    *testing.T
	node *lab.Node
	conn *netlink.Conn
	max  int
}

func openConntrack(t *testing.T, n *lab.Node) *conntrackTable {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max") // one limit for the whole machine
	must(t, err)
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	c := &conntrackTable{t: t, node: n, conn: dialNetfilter(t, n), max: limit}
	t.Cleanup(func() {
		must(t, c.conn.Close())
		// A new socket: the old one still returns errors of failed additions.
		conn := dialNetfilter(t, n)
		_, err := conn.Execute(message(ctDelete, netlink.Acknowledge, nil))
		must(t, err)
		must(t, conn.Close())
	})
	return c
}

func dialNetfilter(t *testing.T, n *lab.Node) (conn *netlink.Conn) {
	t.Helper()
	must(t, n.InNamespace(func() (err error) {
		conn, err = netlink.Dial(unix.NETLINK_NETFILTER, nil)
		return err
	}))
	return conn
}

func message(kind netlink.HeaderType, flags netlink.HeaderFlags, attributes []byte) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{Type: kind, Flags: netlink.Request | flags},
		Data:   append([]byte{unix.AF_INET, unix.NFNETLINK_V0, 0, 0}, attributes...),
	}
}

// fill adds connections with traffic in both directions. The kernel does not evict these
// for new ones.
func (c *conntrackTable) fill(from, to int) {
	c.t.Helper()
	const batch = 128
	for i := from; i < to; i += batch {
		var messages []netlink.Message
		for j := i; j < min(to, i+batch); j++ {
			messages = append(messages, message(ctNew, netlink.Create|netlink.Excl, c.entry(uint32(j))))
		}
		_, err := c.conn.SendMessages(messages)
		must(c.t, err)
	}
}

func (c *conntrackTable) entry(number uint32) []byte {
	// 198.18.0.0/15 is for benchmarks (RFC 2544).
	client := binary.BigEndian.AppendUint32(nil, 198<<24|18<<16|number>>12)
	port := binary.BigEndian.AppendUint16(nil, uint16(10000+number&0xfff))
	server, service := []byte{198, 19, 0, 1}, []byte{0, 9}
	e := netlink.NewAttributeEncoder()
	e.ByteOrder = binary.BigEndian
	tuple := func(source, sourcePort, destination, port []byte) func(*netlink.AttributeEncoder) error {
		return func(e *netlink.AttributeEncoder) error {
			e.Nested(tupleIP, func(e *netlink.AttributeEncoder) error {
				e.Bytes(ipSource, source)
				e.Bytes(ipDestination, destination)
				return nil
			})
			e.Nested(tupleProto, func(e *netlink.AttributeEncoder) error {
				e.Uint8(protoNumber, unix.IPPROTO_UDP)
				e.Bytes(protoSource, sourcePort)
				e.Bytes(protoDest, port)
				return nil
			})
			return nil
		}
	}
	e.Nested(ctOriginal, tuple(client, port, server, service))
	e.Nested(ctReply, tuple(server, service, client, port))
	e.Uint32(ctStatus, seenReplyAssuredConfirmed)
	e.Uint32(ctTime, 600)
	b, err := e.Encode()
	must(c.t, err)
	return b
}

// sendPackets sends packets that start connections until the context ends.
func (c *conntrackTable) sendPackets(ctx context.Context) {
	_ = c.node.InNamespace(func() error {
		s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(s)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for port := 20000; ; port++ {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				// A dropped packet returns an error to the sender.
				_ = unix.Sendto(s, []byte("x"), 0, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: port})
			}
		}
	})
}

// TestConntrack fills the kernel's connection tracking table for a control-plane node.
func TestConntrack(t *testing.T) {
	c := healthy(t, nil)
	n := c.ControlPlane[2].Node
	full := openConntrack(t, n)
	most := full.max * 93 / 100
	full.fill(0, most)
	r := c.expectFindings(n, []string{"conntrack-full"})
	c.expectText(r, "conntrack-full", fmt.Sprintf("of %d entries", full.max))

	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); full.sendPackets(ctx) }()
	defer func() { stop(); <-over }()
	full.fill(most, full.max)
	r = c.expectFindings(n, []string{"conntrack-drops"})
	c.expectText(r, "conntrack-drops", "within 500ms")
}
