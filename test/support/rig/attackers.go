// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// One in floodEvery attacks is a flood. It is prime, so that each VIP gets some.
	floodEvery = 31
	// FloodSize is the number of connections of a flood from one address: more than
	// limits.perSource (docs/configuration.md).
	FloodSize = 300
	// halfOpen is the number of half-open connections of one attack.
	halfOpen = 8
)

// attackerAddress returns the address of an attacker with whole connections. Honest clients use
// others; for IPv6 these are in the same /64, so that limits.perSource applies to both.
func attackerAddress(i int, vip netip.Addr) netip.Addr {
	return clientAddress(clients/2+i%(clients/2), vip)
}

// HalfOpenAddress returns the address whose connections to a VIP stay half-open.
func HalfOpenAddress(vip netip.Addr) netip.Addr {
	if vip.Is4() {
		return addr("10.77.0.120")
	}
	return addr("fd77::120")
}

// dropSYNACK is a table on the side of the clients. Neither the final ACK of a handshake from
// HalfOpenAddress nor a RST is ever sent.
func dropSYNACK() string {
	vips := APIVIPs()
	return fmt.Sprintf(`table inet half-open {
	chain input {
		type filter hook input priority 0;
		ip daddr %v tcp flags & (syn | ack) == syn | ack drop
		ip6 daddr %v tcp flags & (syn | ack) == syn | ack drop
	}
}
`, HalfOpenAddress(vips[0]), HalfOpenAddress(vips[1]))
}

// StartAttackers begins rate attacks a second that are not honest, of seven kinds in turn: a
// head that never ends, a reset after the handshake, a response that is not read, nothing after
// the handshake, a reset within the head, half-open connections, and a response of 64 KiB that
// is not read and does not fit into the buffers of the sockets. Every floodEvery-th attack is a
// flood from one address instead. Each is held for hold at most. Attackers use their own
// addresses. Cancel ctx to end them.
func (r *Rig) StartAttackers(ctx context.Context, vips []netip.Addr, rate int, hold time.Duration) (wait func()) {
	var running sync.WaitGroup
	running.Go(func() {
		_ = r.Outside.InNamespace(func() error {
			tick := time.NewTicker(time.Second / time.Duration(rate))
			defer tick.Stop()
			for i := 0; ; i++ {
				select {
				case <-ctx.Done():
					return nil
				case <-tick.C:
				}
				vip := vips[i%len(vips)]
				var end func()
				if i%floodEvery == 0 {
					end = open(attackerAddress(i, vip), vip, FloodSize)
				} else {
					end = attack(ctx, vip, i/len(vips))
				}
				running.Go(func() {
					select {
					case <-ctx.Done():
					case <-time.After(hold):
					}
					end()
				})
			}
		})
	})
	return running.Wait
}

// attack begins one attack, and returns what ends it.
func attack(ctx context.Context, vip netip.Addr, i int) (end func()) {
	const kinds = 7
	if i%kinds == 5 {
		return open(HalfOpenAddress(vip), vip, halfOpen)
	}
	dial, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(attackerAddress(i, vip), 0)), KeepAlive: -1}
	if i%kinds == 6 {
		dialer.Control = smallBuffer
	}
	conn, err := dialer.DialContext(dial, "tcp", netip.AddrPortFrom(vip, 80).String())
	if err != nil {
		return func() {}
	}
	const prefix = "GET " + challengePath
	const rest = " HTTP/1.1\r\nHost: api.lab.test\r\n\r\n"
	switch i % kinds {
	case 0:
		_, _ = io.WriteString(conn, prefix+"slow HTTP/1.1\r\nHost: a")
	case 1:
		reset(conn)
	case 2:
		_, _ = io.WriteString(conn, "GET /"+rest)
	case 3: // nothing
	case 4:
		_, _ = io.WriteString(conn, prefix+"slow HTTP/1.1\r\nHost: a")
		reset(conn)
	case 6:
		_, _ = io.WriteString(conn, prefix+largeToken+rest)
	}
	return func() { _ = conn.Close() }
}

// smallBuffer gives a socket the smallest receive buffer (socket(7)), before the handshake
// announces a window.
func smallBuffer(_, _ string, c syscall.RawConn) error {
	var set error
	err := c.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1) })
	return errors.Join(err, set)
}

// open begins connections from one address to port 80 of a VIP without waiting. They send
// nothing, and end with RST: TIME_WAIT would hold the ports of the address. It is called on a
// thread in the namespace.
func open(from, vip netip.Addr, n int) (end func()) {
	var fds []int
	for range n {
		fd, err := connect(from, vip)
		if err != nil {
			break // such as a lack of descriptors or ports
		}
		fds = append(fds, fd)
	}
	return func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}
}

func connect(from, vip netip.Addr) (fd int, err error) {
	family := unix.AF_INET
	address := func(a netip.Addr, port int) unix.Sockaddr { return &unix.SockaddrInet4{Port: port, Addr: a.As4()} }
	if vip.Is6() {
		family = unix.AF_INET6
		address = func(a netip.Addr, port int) unix.Sockaddr { return &unix.SockaddrInet6{Port: port, Addr: a.As16()} }
	}
	if fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return 0, fmt.Errorf("open a socket: %w", err)
	}
	err = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	if err == nil {
		err = unix.Bind(fd, address(from, 0))
	}
	if err == nil {
		if err = unix.Connect(fd, address(vip, 80)); errors.Is(err, unix.EINPROGRESS) {
			err = nil
		}
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("connect from %v to %v: %w", from, vip, err), unix.Close(fd))
	}
	return fd, nil
}

// reset ends a connection with RST.
func reset(conn net.Conn) {
	if tcp, is := conn.(*net.TCPConn); is {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
