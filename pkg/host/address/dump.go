// SPDX-License-Identifier: Apache-2.0

//go:build linux

package address

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/jsimonetti/rtnetlink/v2"
	"github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nlenc"
	"github.com/mdlayher/socket"
	"golang.org/x/sys/unix"
)

const (
	// dumpTimeout bounds one dump. The kernel answers while the request is being
	// sent, so only a reply that never comes can use it up.
	dumpTimeout = 2 * time.Second
	// dumpBuffer is more than the kernel puts into one datagram of a dump: 32 KiB
	// at most (netlink_dump and netlink_recvmsg of net/netlink/af_netlink.c).
	dumpBuffer = 64 << 10
)

// dumpConn dumps addresses over a plain socket, without the connection types of
// the netlink libraries: those take the last message of a dump off, and when an
// address is gone by the time the dump goes on, that message alone may carry the
// mark that the dump is torn. For the same reason it dumps each family by itself:
// a dump of all families forgets, where it goes from one to the next, that the
// one before was torn (rtnl_dump_all of net/core/rtnetlink.c).
type dumpConn struct {
	socket   *socket.Conn
	sequence uint32
	buffer   []byte
}

func openDumpConn() (*dumpConn, error) {
	s, err := socket.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE, "netlink", nil)
	if err != nil {
		return nil, fmt.Errorf("open a route netlink socket: %w", err)
	}
	if err := s.Bind(&unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("bind a route netlink socket: %w", err)
	}
	return &dumpConn{socket: s, buffer: make([]byte, dumpBuffer)}, nil
}

func (c *dumpConn) close() error { return c.socket.Close() }

// dump returns the addresses of both families, or errInterrupted.
func (c *dumpConn) dump() ([]Address, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dumpTimeout)
	defer cancel()
	var (
		list []Address
		torn bool
	)
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		d := familyDump{family: family}
		if err := c.dumpFamily(ctx, &d); err != nil {
			return nil, fmt.Errorf("dump the addresses: %w", err)
		}
		list = append(list, d.addresses...)
		torn = torn || d.interrupted
	}
	if torn {
		return nil, errInterrupted
	}
	return list, nil
}

func (c *dumpConn) dumpFamily(ctx context.Context, d *familyDump) error {
	body, err := (&rtnetlink.AddressMessage{Family: d.family}).MarshalBinary()
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	c.sequence++
	d.sequence = c.sequence
	request, err := netlink.Message{
		Header: netlink.Header{
			Length:   uint32(unix.NLMSG_HDRLEN + len(body)), //nolint:gosec // 24 bytes
			Type:     unix.RTM_GETADDR,
			Flags:    netlink.Request | netlink.Dump,
			Sequence: c.sequence,
		},
		Data: body,
	}.MarshalBinary()
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	if _, err := c.socket.Sendmsg(ctx, request, nil, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}, 0); err != nil {
		return fmt.Errorf("send the request: %w", err)
	}
	for !d.done {
		n, _, flags, _, err := c.socket.Recvmsg(ctx, c.buffer, nil, 0)
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		if flags&unix.MSG_TRUNC != 0 {
			return errors.New("receive: a datagram of the kernel is larger than any should be")
		}
		if err := d.add(c.buffer[:n]); err != nil {
			return err
		}
	}
	return nil
}

// familyDump is what came of one dump so far.
type familyDump struct {
	family      uint8
	sequence    uint32
	addresses   []Address
	interrupted bool // the kernel marked some message as inconsistent with those before
	done        bool
}

// add takes in one datagram.
func (d *familyDump) add(datagram []byte) error {
	messages, err := syscall.ParseNetlinkMessage(datagram)
	if err != nil {
		return fmt.Errorf("decode the kernel's answer: %w", err)
	}
	for _, m := range messages {
		if m.Header.Seq != d.sequence {
			return fmt.Errorf("decode the kernel's answer: it has sequence number %d, not %d", m.Header.Seq, d.sequence)
		}
		d.interrupted = d.interrupted || netlink.HeaderFlags(m.Header.Flags)&netlink.DumpInterrupted != 0
		if err := d.addMessage(m); err != nil {
			return err
		}
	}
	return nil
}

func (d *familyDump) addMessage(m syscall.NetlinkMessage) error {
	switch m.Header.Type {
	case unix.NLMSG_DONE, unix.NLMSG_ERROR:
		d.done = true
		if len(m.Data) >= 4 {
			if errno := nlenc.Int32(m.Data[:4]); errno != 0 {
				return fmt.Errorf("the kernel refuses: %w", unix.Errno(-errno)) //nolint:gosec // the kernel sends negative ones
			}
		}
	case unix.RTM_NEWADDR:
		var am rtnetlink.AddressMessage
		if err := am.UnmarshalBinary(m.Data); err != nil {
			return fmt.Errorf("decode an address: %w", err)
		}
		metric, err := parseMetric(m.Data)
		if err != nil {
			return fmt.Errorf("decode an address: %w", err)
		}
		// A kernel without IPv6 answers for all families (rtnetlink_rcv_msg).
		if a, ok := fromMessage(&am); ok && am.Family == d.family {
			a.Metric = metric
			d.addresses = append(d.addresses, a)
		}
	}
	return nil
}
