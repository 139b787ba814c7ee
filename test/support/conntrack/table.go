// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// From linux/netfilter/nfnetlink_conntrack.h and nf_conntrack_common.h.
const (
	ctNew, ctDelete                       = unix.NFNL_SUBSYS_CTNETLINK << 8, unix.NFNL_SUBSYS_CTNETLINK<<8 | 2
	ctOriginal, ctReply, ctStatus, ctTime = 1, 2, 3, 7
	ctMark, ctMarkMask                    = 8, 21
	tupleIP, tupleProto                   = 1, 2
	ipSource, ipDestination               = 1, 2
	protoNumber, protoSource, protoDest   = 1, 2, 3
	seenReplyAssuredConfirmed             = 2 | 4 | 8
)

// mark is on each entry of a Table, so that Close leaves the others.
const mark = 0x66756c6c

// maxEntries bounds the memory of a full table: 256 bytes for each entry.
const maxEntries = 1 << 20

// Table holds entries in the connection tracking table of a node. Close removes them.
type Table struct {
	Max int // the limit of a network namespace

	node *lab.Node
	conn *netlink.Conn
}

// Open opens the table of a node. It returns an error if a full table would take too much
// memory. The machine's limit applies to all namespaces, so Open does not lower it.
func Open(n *lab.Node) (*Table, error) {
	text, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max")
	if err != nil {
		return nil, fmt.Errorf("read the limit of connection tracking: %w", err)
	}
	t := &Table{node: n}
	if t.Max, err = parseLimit(string(text)); err != nil {
		return nil, err
	}
	t.conn, err = dial(n)
	return t, err
}

func parseLimit(text string) (int, error) {
	limit, err := strconv.Atoi(strings.TrimSpace(text))
	switch {
	case err != nil:
		return 0, fmt.Errorf("read the limit of connection tracking: %w", err)
	case limit < 1 || limit > maxEntries:
		return 0, fmt.Errorf(
			"cannot fill connection tracking: net.netfilter.nf_conntrack_max is %d. Set a limit from 1 to %d: sysctl "+
				"net.netfilter.nf_conntrack_max=262144", limit, maxEntries)
	default:
		return limit, nil
	}
}

func dial(n *lab.Node) (conn *netlink.Conn, err error) {
	err = n.InNamespace(func() (err error) {
		if conn, err = netlink.Dial(unix.NETLINK_NETFILTER, nil); err != nil {
			return fmt.Errorf("open netlink: %w", err)
		}
		return nil
	})
	return conn, err
}

// Close removes the entries.
func (t *Table) Close() error {
	closed := t.conn.Close()
	e := netlink.NewAttributeEncoder()
	e.ByteOrder = binary.BigEndian
	e.Uint32(ctMark, mark)
	e.Uint32(ctMarkMask, ^uint32(0))
	filter, err := e.Encode()
	if err == nil {
		// On a new socket: the old one still returns errors of failed additions.
		err = remove(t.node, filter)
	}
	return errors.Join(closed, err)
}

// Flush removes all entries of a node: its connections of before.
func Flush(n *lab.Node) error { return remove(n, nil) }

// remove removes the entries of a node that match a filter.
func remove(n *lab.Node, filter []byte) error {
	conn, err := dial(n)
	if err != nil {
		return err
	}
	_, err = conn.Execute(message(ctDelete, netlink.Acknowledge, filter))
	if err = errors.Join(err, conn.Close()); err != nil {
		return fmt.Errorf("remove entries of connection tracking: %w", err)
	}
	return nil
}

func message(kind netlink.HeaderType, flags netlink.HeaderFlags, attributes []byte) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{Type: kind, Flags: netlink.Request | flags},
		Data:   append([]byte{unix.AF_INET, unix.NFNETLINK_V0, 0, 0}, attributes...),
	}
}

// Fill adds the entries with these numbers: connections with traffic in both directions,
// which the kernel does not evict for new ones. The kernel refuses those beyond the limit.
func (t *Table) Fill(from, to int) error {
	const batch = 128
	for i := from; i < to; i += batch {
		var messages []netlink.Message
		for j := i; j < min(to, i+batch); j++ {
			attributes, err := entry(uint32(j)) //nolint:gosec // below the limit, which is an int32
			if err != nil {
				return err
			}
			messages = append(messages, message(ctNew, netlink.Create|netlink.Excl, attributes))
		}
		if _, err := t.conn.SendMessages(messages); err != nil {
			return fmt.Errorf("add entries of connection tracking: %w", err)
		}
	}
	return nil
}

// Dropped returns how many packets of the node were dropped because they could not be
// tracked: the kernel's counter.
func (t *Table) Dropped() (n uint64, err error) {
	err = t.node.InNamespace(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/stat/nf_conntrack")
		if err != nil {
			return fmt.Errorf("read the statistics of connection tracking: %w", err)
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		column := slices.Index(strings.Fields(lines[0]), "drop")
		for _, line := range lines[1:] { // of each processor
			fields := strings.Fields(line)
			if column < 0 || column >= len(fields) {
				return fmt.Errorf("the statistics of connection tracking have no column drop: %s", text)
			}
			count, err := strconv.ParseUint(fields[column], 16, 64)
			if err != nil {
				return fmt.Errorf("read the statistics of connection tracking: %w", err)
			}
			n += count
		}
		return nil
	})
	return n, err
}

func entry(number uint32) ([]byte, error) {
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
	e.Uint32(ctTime, lifetime)
	e.Uint32(ctMark, mark)
	b, err := e.Encode()
	if err != nil {
		return nil, fmt.Errorf("encode an entry of connection tracking: %w", err)
	}
	return b, nil
}

// lifetime is in seconds: longer than a test.
const lifetime = 600
