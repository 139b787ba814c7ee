// SPDX-License-Identifier: Apache-2.0

package rehearsal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// connection is a TCP connection to port 80 of an API VIP, as its client sees it.
type connection struct {
	node     string // of the client
	client   netip.AddrPort
	vip      netip.Addr
	sequence uint32 // of the SYN

	opened      time.Time // SYN sent
	established time.Time // SYN-ACK received
	requested   time.Time // first byte of the request sent
	answered    time.Time // first byte of the response received
	last        time.Time // last packet
	token       string
	status      int  // of the response; 0 without one
	refused     bool // RST in response to the SYN
	reset       bool // RST after the SYN-ACK
	abandoned   bool // the client has closed it without a request, before any reset
}

// outcome describes what the client got.
func (c *connection) outcome() string {
	switch {
	case c.status != 0:
		return strconv.Itoa(c.status)
	case c.refused:
		return "connection refused"
	case c.established.IsZero():
		return "no connection"
	case c.requested.IsZero():
		return "no request"
	default:
		return "no response"
	}
}

// String identifies the connection in a message.
func (c *connection) String() string {
	return fmt.Sprintf("%v to %v, %s to %s: %s", c.client, c.vip, c.opened.Format(clock), c.last.Format(clock), c.outcome())
}

// clock is the layout of times in messages.
const clock = "15:04:05.000"

// capture records the connections to port 80 in the namespaces of clients. The clients see
// what the service cannot: connections that it has never received, and responses that got
// lost. Nothing of the service takes part.
type capture struct {
	mu   sync.Mutex
	all  []*connection
	last map[flow]*connection
}

// flow is the pair of a client's and a VIP's address.
type flow struct {
	client netip.AddrPort
	vip    netip.Addr
}

// captureBuffer is the size of a socket's buffer for packets that have not been read.
const captureBuffer = 32 << 20

// start records packets of nodes until ctx ends. stop waits for the end, and returns an error
// if packets were lost.
func (c *capture) start(ctx context.Context, nodes ...*lab.Node) (stop func() error, err error) {
	c.last = map[flow]*connection{}
	ctx, cancel := context.WithCancel(ctx)
	var readers errgroup.Group
	stop = func() error { cancel(); return readers.Wait() }
	for _, n := range nodes {
		fd := -1
		err := n.InNamespace(func() error {
			var err error
			fd, err = openCapture()
			return err
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("capture packets on %s: %w", n.Name, err), stop())
		}
		readers.Go(func() error {
			defer func() { _ = unix.Close(fd) }()
			if err := c.read(ctx, n.Name, fd); err != nil {
				return fmt.Errorf("capture packets on %s: %w", n.Name, err)
			}
			return nil
		})
	}
	return stop, nil
}

// openCapture returns a socket that receives each packet of this network namespace from its
// IP header on.
func openCapture() (int, error) {
	every := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(every))
	if err != nil {
		return -1, fmt.Errorf("open a packet socket: %w", err)
	}
	timeout := unix.NsecToTimeval((200 * time.Millisecond).Nanoseconds()) // until ctx is evaluated again
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, captureBuffer),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout),
	)
	if err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("configure a packet socket: %w", err)
	}
	return fd, nil
}

func (c *capture) read(ctx context.Context, node string, fd int) error {
	packet, control := make([]byte, 2048), make([]byte, unix.CmsgSpace(16))
	for ctx.Err() == nil {
		n, controlSize, _, _, err := unix.Recvmsg(fd, packet, control, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if s, is := parseSegment(packet[:n]); is {
			c.see(node, s, receivedAt(control[:controlSize]))
		}
	}
	lost, err := unix.GetsockoptTpacketStats(fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err == nil && lost.Drops > 0 {
		err = fmt.Errorf("the kernel dropped %d of %d packets", lost.Drops, lost.Packets)
	}
	return err
}

// receivedAt returns the kernel's time of a packet.
func receivedAt(control []byte) time.Time {
	messages, err := unix.ParseSocketControlMessage(control)
	if err == nil && len(messages) == 1 && len(messages[0].Data) >= 16 {
		data := messages[0].Data
		return time.Unix(int64(binary.NativeEndian.Uint64(data)), int64(binary.NativeEndian.Uint64(data[8:]))) //nolint:gosec // a time
	}
	return time.Now()
}

// segment is a TCP segment.
type segment struct {
	from, to netip.AddrPort
	sequence uint32
	data     []byte

	fin, syn, ack, rst bool
}

// parseSegment parses a packet from its IP header on. It returns false for one without TCP.
// The lab sends no fragments and no extension headers.
func parseSegment(packet []byte) (s segment, is bool) {
	var from, to netip.Addr
	switch {
	case len(packet) >= 20 && packet[0]>>4 == 4 && packet[9] == unix.IPPROTO_TCP:
		from, _ = netip.AddrFromSlice(packet[12:16])
		to, _ = netip.AddrFromSlice(packet[16:20])
		packet = packet[min(len(packet), int(packet[0]&15)*4):min(len(packet), int(binary.BigEndian.Uint16(packet[2:])))]
	case len(packet) >= 40 && packet[0]>>4 == 6 && packet[6] == unix.IPPROTO_TCP:
		from, _ = netip.AddrFromSlice(packet[8:24])
		to, _ = netip.AddrFromSlice(packet[24:40])
		packet = packet[40:min(len(packet), 40+int(binary.BigEndian.Uint16(packet[4:])))]
	default:
		return s, false
	}
	if len(packet) < 20 || len(packet) < int(packet[12]>>4)*4 {
		return s, false
	}
	s.from = netip.AddrPortFrom(from, binary.BigEndian.Uint16(packet))
	s.to = netip.AddrPortFrom(to, binary.BigEndian.Uint16(packet[2:]))
	s.sequence = binary.BigEndian.Uint32(packet[4:])
	s.fin, s.syn, s.rst, s.ack = packet[13]&1 != 0, packet[13]&2 != 0, packet[13]&4 != 0, packet[13]&16 != 0
	s.data = packet[int(packet[12]>>4)*4:]
	return s, true
}

// The first lines of a challenge and of its response.
var (
	challengeLine = regexp.MustCompile(`^GET /\.well-known/acme-challenge/(\S+) HTTP/1\.1\r\n`)
	statusLine    = regexp.MustCompile(`^HTTP/1\.1 ([0-9]{3}) `)
)

// see takes a segment that a client's node has sent or received.
func (c *capture) see(node string, s segment, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch uint16(80) {
	case s.to.Port():
		c.sent(node, s, at)
	case s.from.Port():
		c.received(s, at)
	}
}

func (c *capture) sent(node string, s segment, at time.Time) {
	key := flow{s.from, s.to.Addr()}
	one := c.last[key]
	if s.syn && (one == nil || one.sequence != s.sequence) {
		one = &connection{node: node, client: s.from, vip: s.to.Addr(), sequence: s.sequence, opened: at}
		c.last[key], c.all = one, append(c.all, one)
	}
	if one == nil {
		return // opened before the capture
	}
	one.last = at
	one.abandoned = one.abandoned || (s.fin || s.rst) && !one.reset && !one.established.IsZero() && one.requested.IsZero() && len(s.data) == 0
	if len(s.data) > 0 && one.requested.IsZero() {
		one.requested = at
		if m := challengeLine.FindSubmatch(s.data); m != nil {
			one.token = string(m[1])
		}
	}
}

func (c *capture) received(s segment, at time.Time) {
	one := c.last[flow{s.to, s.from.Addr()}]
	if one == nil {
		return
	}
	one.last = at
	switch {
	case s.syn && s.ack && one.established.IsZero():
		one.established = at
	case s.rst && one.established.IsZero():
		one.refused = true
	case s.rst:
		one.reset = true
	case len(s.data) > 0 && one.answered.IsZero():
		one.answered = at
		if m := statusLine.FindSubmatch(s.data); m != nil {
			one.status, _ = strconv.Atoi(string(m[1]))
		}
	}
}

// connections returns all connections to addresses so far.
func (c *capture) connections(to ...netip.Addr) (all []connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := map[netip.Addr]bool{}
	for _, a := range to {
		wanted[a] = true
	}
	for _, one := range c.all {
		if wanted[one.vip] {
			all = append(all, *one)
		}
	}
	return all
}
