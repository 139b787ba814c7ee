// SPDX-License-Identifier: Apache-2.0

//go:build linux

package address

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/jsimonetti/rtnetlink/v2"
	"github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nlenc"
	"github.com/mdlayher/socket"
	"golang.org/x/sys/unix"
)

const (
	// dumpTimeout bounds one dump. The kernel replies while the request is being sent, so
	// only a missing reply can exceed it.
	dumpTimeout = 2 * time.Second
	// dumpBuffer is larger than any datagram of a dump: the kernel's limit is 32 KiB
	// (netlink_dump and netlink_recvmsg in net/netlink/af_netlink.c).
	dumpBuffer = 64 << 10
)

// dumpConn dumps addresses over a plain socket, without the connection types of the netlink
// libraries. The libraries remove the last message of a dump. If an address is deleted during
// the dump, only that message may carry the flag NLM_F_DUMP_INTR. dumpConn dumps each family
// separately for the same reason: a dump of all families loses the flag of one family when it
// continues with the next (rtnl_dump_all in net/core/rtnetlink.c).
type dumpConn struct {
	socket   *socket.Conn
	sequence uint32
	buffer   []byte
}

func openDumpConn() (*dumpConn, error) {
	s, err := socket.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE, "netlink", nil)
	if err != nil {
		return nil, fmt.Errorf("cannot open a route netlink socket: %w", err)
	}
	if err := s.Bind(&unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("cannot bind a route netlink socket: %w", err)
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
			return nil, fmt.Errorf("cannot dump the addresses: %w", err)
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
		return fmt.Errorf("cannot encode the request: %w", err)
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
		return fmt.Errorf("cannot encode the request: %w", err)
	}
	if _, err := c.socket.Sendmsg(ctx, request, nil, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}, 0); err != nil {
		return fmt.Errorf("cannot send the request: %w", err)
	}
	for !d.done {
		n, _, flags, _, err := c.socket.Recvmsg(ctx, c.buffer, nil, 0)
		if err != nil {
			return fmt.Errorf("cannot receive the reply: %w", err)
		}
		if flags&unix.MSG_TRUNC != 0 {
			return errors.New("cannot receive the reply: datagram too large")
		}
		if err := d.add(c.buffer[:n]); err != nil {
			return err
		}
	}
	return nil
}

// familyDump is the result of one dump so far.
type familyDump struct {
	family      uint8
	sequence    uint32
	addresses   []Address
	interrupted bool // a message carried the flag NLM_F_DUMP_INTR
	done        bool
}

func (d *familyDump) add(datagram []byte) error {
	messages, err := syscall.ParseNetlinkMessage(datagram)
	if err != nil {
		return fmt.Errorf("cannot decode the reply: %w", err)
	}
	for _, m := range messages {
		if m.Header.Seq != d.sequence {
			return fmt.Errorf("cannot decode the reply: its sequence number is %d, not %d", m.Header.Seq, d.sequence)
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
				return fmt.Errorf("the kernel returned an error: %w", unix.Errno(-errno)) //nolint:gosec // the kernel sends negative numbers
			}
		}
	case unix.RTM_NEWADDR:
		var am rtnetlink.AddressMessage
		if err := am.UnmarshalBinary(m.Data); err != nil {
			return fmt.Errorf("cannot decode an address: %w", err)
		}
		metric, err := parseMetric(m.Data)
		if err != nil {
			return fmt.Errorf("cannot decode an address: %w", err)
		}
		// A kernel without IPv6 replies with all families (rtnetlink_rcv_msg).
		if a, ok := fromMessage(&am); ok && am.Family == d.family {
			a.Metric = metric
			d.addresses = append(d.addresses, a)
		}
	}
	return nil
}

// maxDumps bounds how often an interrupted dump is repeated. A dump takes less than a
// millisecond. If addresses change faster for that long, the result is an error, and
// the next event causes another snapshot.
const maxDumps = 16

// errInterrupted means that addresses changed during the dump, so that the dump may
// lack addresses, including unchanged ones.
var errInterrupted = errors.New("the addresses changed during the dump")

// dumper dumps all addresses over its own socket. It is safe for concurrent use.
type dumper struct {
	mu   sync.Mutex
	conn *dumpConn // nil before the first use and after an error
}

// snapshot returns a consistent dump. It tries at most maxDumps times.
func (d *dumper) snapshot() ([]Address, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return retryInterrupted(d.dump)
}

// retryInterrupted calls dump until it is not interrupted, at most maxDumps times.
func retryInterrupted(dump func() ([]Address, error)) ([]Address, error) {
	var err error
	for range maxDumps {
		var list []Address
		if list, err = dump(); err == nil {
			return list, nil
		}
		if !errors.Is(err, errInterrupted) {
			break
		}
	}
	return nil, fmt.Errorf("cannot read the addresses of this host: %w", err)
}

func (d *dumper) dump() ([]Address, error) {
	if d.conn == nil {
		conn, err := openDumpConn()
		if err != nil {
			return nil, err
		}
		d.conn = conn
	}
	list, err := d.conn.dump()
	if err != nil && !errors.Is(err, errInterrupted) {
		// Queued replies would be read as replies to the next request.
		_ = d.conn.close()
		d.conn = nil
	}
	return list, err
}

func (d *dumper) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn == nil {
		return nil
	}
	err := d.conn.close()
	d.conn = nil
	return err
}

// List returns a snapshot of all addresses without a Watcher.
func List() ([]Address, error) {
	var d dumper
	list, err := d.snapshot()
	return list, errors.Join(err, d.close())
}
