// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// Hostile is one process of a flood. After the signal Begin it opens Connections at once,
// reopens closed ones, and never sends a whole request head, unless Request is set.
type Hostile struct {
	Sources     []Range // used in turn
	Request     string  // is sent on each connection, if not empty
	Server4     netip.AddrPort
	Server6     netip.AddrPort
	Connections int
	PerSecond   int // maximum of connections opened a second after the first of each
}

// HostileReport contains the results of a process.
type HostileReport struct {
	Opened, Established int
	Refused             int // before the connection was established
	Reset               int // reset after the connection was established
	Answered            int // closed by the other side
	Peak                int // maximum of open connections, with those being established
}

// behaviour selects what an established connection sends.
type behaviour int

const (
	idle     behaviour = iota // sends nothing
	half                      // sends half a head
	slowHead                  // sends an endless head byte by byte
	behaviours
)

const (
	// pollInterval is the interval of the main loop.
	pollInterval = 10 * time.Millisecond
	// slowInterval is the interval between two bytes of a slow head.
	slowInterval = time.Second
	// batch is the maximum of events per poll.
	batch = 1024
)

// socket is one of the connections.
type socket struct {
	fd          int // -1 while it is closed
	established bool
}

// rig runs a Hostile with system calls on one thread. Tens of thousands of goroutines would
// take CPU time from the service.
type rig struct {
	Hostile
	report   HostileReport
	epoll    int
	sockets  []socket
	closed   []int // waiting to be opened again
	open     int
	lastSlow int // index of the last socket that got a slow byte
	sources  int
}

func (h Hostile) run(ctx context.Context) (HostileReport, error) {
	begin := make(chan os.Signal, 1)
	signal.Notify(begin, Begin)
	if err := printReport(HostileReport{}); err != nil {
		return HostileReport{}, err
	}
	select {
	case <-begin:
	case <-ctx.Done():
		return HostileReport{}, nil
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return HostileReport{}, fmt.Errorf("create an epoll descriptor: %w", err)
	}
	r := &rig{Hostile: h, epoll: epoll, sockets: make([]socket, h.Connections)}
	for i := range r.sockets {
		r.sockets[i].fd = -1
		r.closed = append(r.closed, i)
	}
	for _, s := range h.Sources {
		r.sources += s.Count
	}
	defer r.end()
	for range r.Connections { // before it polls any of them
		if err := r.connect(); err != nil {
			return r.report, err
		}
	}
	if err := r.poll(); err != nil {
		return r.report, err
	}
	if err := printReport(r.report); err != nil {
		return r.report, err
	}
	due, last := 0.0, time.Now()
	for ctx.Err() == nil {
		now := time.Now()
		due = min(due+now.Sub(last).Seconds()*float64(h.PerSecond), float64(h.PerSecond))
		last = now
		for ; due >= 1 && len(r.closed) > 0; due-- {
			if err := r.connect(); err != nil {
				return r.report, err
			}
		}
		r.sendSlowBytes()
		if err := r.poll(); err != nil {
			return r.report, err
		}
	}
	return r.report, nil
}

// end resets all connections, so that the kernel keeps nothing of the flood.
func (r *rig) end() {
	for i := range r.sockets {
		r.close(i)
	}
	_ = unix.Close(r.epoll)
}

// source returns the source address of a socket.
func (r *rig) source(i int) netip.Addr {
	i %= r.sources
	for _, s := range r.Sources {
		if i < s.Count {
			return s.at(i)
		}
		i -= s.Count
	}
	return netip.Addr{}
}

// connect opens the socket that was closed for longest.
func (r *rig) connect() error {
	i := r.closed[0]
	r.closed = r.closed[1:]
	from := r.source(i)
	family, server := unix.AF_INET, r.Server4
	if !from.Is4() {
		family, server = unix.AF_INET6, r.Server6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("create a socket: %w", err)
	}
	r.sockets[i] = socket{fd: fd}
	r.open++
	r.report.Opened++
	r.report.Peak = max(r.report.Peak, r.open)
	// IP_BIND_ADDRESS_NO_PORT delays the choice of the port until the destination is known;
	// otherwise ports run out (ip(7)). IP_FREEBIND is necessary for IPv6: an address that
	// only a route makes local cannot be bound otherwise (net/ipv6/af_inet6.c,
	// __inet6_bind).
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_FREEBIND, 1),
		unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1),
		unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}),
		unix.Bind(fd, sockaddr(netip.AddrPortFrom(from, 0))),
		unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{
			Events: unix.EPOLLOUT | unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(i), //nolint:gosec // an index
		}),
	)
	if err != nil {
		return fmt.Errorf("prepare a socket of %s: %w", from, err)
	}
	if err := unix.Connect(fd, sockaddr(server)); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		r.report.Refused++
		r.reopen(i)
	}
	return nil
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

func (r *rig) close(i int) {
	if r.sockets[i].fd >= 0 {
		_ = unix.Close(r.sockets[i].fd)
		r.sockets[i].fd = -1
		r.open--
	}
}

func (r *rig) reopen(i int) {
	r.close(i)
	r.closed = append(r.closed, i)
}

func (r *rig) poll() error {
	var events [batch]unix.EpollEvent
	n, err := unix.EpollWait(r.epoll, events[:], int(pollInterval.Milliseconds()))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("wait for events: %w", err)
	}
	for _, e := range events[:max(n, 0)] {
		r.handle(int(e.Fd), e.Events)
	}
	return nil
}

func (r *rig) handle(i int, events uint32) {
	s := &r.sockets[i]
	switch {
	case s.fd < 0:
	case events&(unix.EPOLLERR|unix.EPOLLHUP) != 0:
		r.countReset(s)
		r.reopen(i)
	case events&(unix.EPOLLRDHUP|unix.EPOLLIN) != 0:
		r.report.Answered++
		r.reopen(i)
	case !s.established:
		s.established = true
		r.report.Established++
		r.sendFirstBytes(i)
	}
}

// countReset counts a connection that the other side or the kernel closed. It may be
// established in the meantime.
func (r *rig) countReset(s *socket) {
	if !s.established {
		why, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err != nil || unix.Errno(why) != unix.ECONNRESET {
			r.report.Refused++
			return
		}
		r.report.Established++
	}
	r.report.Reset++
}

func (r *rig) sendFirstBytes(i int) {
	text := cmp.Or(r.Request, map[behaviour]string{
		half:     "GET /.well-known/acme-challenge/half-a-head HTTP/1.1\r\nHo",
		slowHead: "GET / HTTP/1.1\r\nX: ",
	}[behaviour(i)%behaviours])
	if text != "" {
		_, _ = unix.Write(r.sockets[i].fd, []byte(text))
	}
}

// sendSlowBytes sends a byte on a part of the sockets in each turn, so that each slow head
// gets one byte a second.
func (r *rig) sendSlowBytes() {
	if r.Request != "" {
		return
	}
	share := len(r.sockets)*int(pollInterval)/int(slowInterval) + 1
	for range share {
		r.lastSlow = (r.lastSlow + 1) % len(r.sockets)
		if s := r.sockets[r.lastSlow]; s.established && s.fd >= 0 && behaviour(r.lastSlow)%behaviours == slowHead {
			_, _ = unix.Write(s.fd, []byte("x"))
		}
	}
}
