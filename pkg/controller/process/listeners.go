// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/socketowner"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
)

// Listeners holds the listening sockets by port, here and in systemd's descriptor
// store. They outlive a proxy process. It belongs to the goroutine of the supervisor.
type Listeners struct {
	log   *slog.Logger
	store *systemd.DescriptorStore // nil without a store
	fds   map[uint16]int
}

// InheritListeners takes over the listening sockets of the previous process of this unit.
func InheritListeners(log *slog.Logger, store *systemd.DescriptorStore) *Listeners {
	return &Listeners{log: log, store: store, fds: inheritedSockets(log, store)}
}

// Ports returns the open ports, sorted.
func (l *Listeners) Ports() []uint16 { return slices.Sorted(maps.Keys(l.fds)) }

// open creates the listening socket of a port.
func (l *Listeners) open(port uint16) (fd int, err error) {
	fd, err = listen(port)
	if errors.Is(err, unix.EADDRINUSE) {
		owner, _, _ := socketowner.DescribeTCPPort(port)
		return -1, fmt.Errorf("cannot listen on port %d: it is in use by %s: stop that, "+
			"or set mode: CustomDeployment with a free customDeployment.internalPort", port, owner)
	}
	if err != nil {
		return -1, fmt.Errorf("cannot listen on port %d: %w", port, err)
	}
	l.add(port, fd)
	return fd, nil
}

// add holds a listening socket, here and in the descriptor store.
func (l *Listeners) add(port uint16, fd int) {
	l.fds[port] = fd
	if l.store == nil {
		return
	}
	if err := l.store.Add(storeName(port), fd); err != nil {
		l.log.Warn("a restart of this service will refuse connections", slog.String("event", "store"), slog.Any("error", err))
	}
}

// close closes a listening socket, here and in the descriptor store.
func (l *Listeners) close(port uint16) { giveUp(l.release(port)) }

// release removes a listening socket from the set and from the descriptor store. The
// caller closes it.
func (l *Listeners) release(port uint16) (fd int) {
	fd = l.fds[port]
	delete(l.fds, port)
	if l.store == nil {
		return fd
	}
	if err := l.store.Remove(storeName(port)); err != nil {
		l.log.Warn("a port stays in use until this service stops", slog.String("event", "store"), slog.Any("error", err))
	}
	return fd
}

// Backlog is what the kernel reports about a listening socket.
type Backlog struct {
	Listening      bool
	Waiting, Limit uint32 // connections that wait to be accepted, and the maximum
}

// HasRoom reports whether the socket takes another connection.
func (b Backlog) HasRoom() bool { return b.Listening && b.Waiting <= b.Limit }

// backlog returns what waits at the socket on a port. Of a listening socket, tcpi_unacked is the
// number of connections that wait to be accepted, and tcpi_sacked the maximum (net/ipv4/tcp.c,
// tcp_get_info).
func (l *Listeners) backlog(port uint16) (b Backlog) {
	fd, open := l.fds[port]
	if !open {
		return b
	}
	_, err := listeningPort(fd)
	b.Listening = err == nil
	if info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil && b.Listening {
		b.Waiting, b.Limit = info.Unacked, info.Sacked
	}
	return b
}
