// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/nonblock"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
)

// receiveNotifications makes a listening socket on a port of every address. It is not in this
// process's poller: the gate alone is woken by connections.
func listen(port uint16) (fd int, err error) {
	// The conversations are short and bounded: TCP keep-alive would be set up
	// for nothing.
	config := net.ListenConfig{KeepAlive: -1, Control: nonblock.BufferSizes(socketBuffer)}
	return newListeningSocket(config, "tcp", net.JoinHostPort("", strconv.Itoa(int(port))))
}

// listenReusePort makes another listening socket on the port of old, which takes all
// connections from now on; those that old has begun to take arrive there. Only
// processes of this user can join them (SO_REUSEPORT, socket(7)).
func listenReusePort(port uint16, old int) (fd int, err error) {
	// The kernel looks at it when the other one is bound (inet_csk_bind_conflict).
	if err := unix.SetsockoptInt(old, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return -1, fmt.Errorf("share port %d: %w", port, err)
	}
	buffers := nonblock.BufferSizes(socketBuffer)
	config := net.ListenConfig{KeepAlive: -1, Control: func(network, address string, conn syscall.RawConn) error {
		var shared error
		err := conn.Control(func(fd uintptr) {
			shared = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		})
		return errors.Join(err, shared, buffers(network, address, conn))
	}}
	if fd, err = newListeningSocket(config, "tcp", net.JoinHostPort("", strconv.Itoa(int(port)))); err != nil {
		return -1, err
	}
	// The second socket of the group takes every connection. Alone it is the first, and
	// takes them all the same (reuseport_select_sock).
	second := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 1}
	program := unix.SockFprog{Len: 1, Filter: &second}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &program); err != nil {
		return -1, errors.Join(fmt.Errorf("take the connections of port %d: %w", port, err), unix.Close(fd))
	}
	return fd, nil
}

// mutableOptions are those by which a process that shares a listening socket can change
// what clients get there. Connections inherit them.
func mutableOptions() map[int][]int {
	return map[int][]int{
		unix.SOL_SOCKET: {
			unix.SO_KEEPALIVE, unix.SO_BROADCAST, unix.SO_DONTROUTE, unix.SO_OOBINLINE, unix.SO_MARK, unix.SO_PRIORITY, unix.SO_RCVLOWAT,
			unix.SO_BINDTOIFINDEX, unix.SO_RCVBUF, unix.SO_SNDBUF,
		},
		unix.IPPROTO_IP:   {unix.IP_MINTTL, unix.IP_TTL, unix.IP_TOS, unix.IP_TRANSPARENT, unix.IP_FREEBIND, unix.IP_MTU_DISCOVER},
		unix.IPPROTO_IPV6: {unix.IPV6_MINHOPCOUNT, unix.IPV6_UNICAST_HOPS, unix.IPV6_TCLASS, unix.IPV6_TRANSPARENT, unix.IPV6_MTU_DISCOVER},
		unix.IPPROTO_TCP: {
			unix.TCP_NODELAY, unix.TCP_DEFER_ACCEPT, unix.TCP_KEEPIDLE, unix.TCP_KEEPINTVL, unix.TCP_KEEPCNT, unix.TCP_SYNCNT, unix.TCP_LINGER2,
			unix.TCP_WINDOW_CLAMP, unix.TCP_USER_TIMEOUT, unix.TCP_FASTOPEN, unix.TCP_NOTSENT_LOWAT, unix.TCP_SAVE_SYN,
		},
	}
}

// resetOptions gives a listening socket that a gate has had the options of a new one. The
// error says what cannot be taken back.
func resetOptions(fd int) error {
	if _, err := listeningPort(fd); err != nil {
		return err
	}
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return fmt.Errorf("ask what it is: %w", err)
	}
	fresh, err := unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make a socket to compare it with: %w", err)
	}
	defer unix.Close(fresh)
	for _, option := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF} {
		if err := errors.Join(unix.SetsockoptInt(fresh, unix.SOL_SOCKET, option, socketBuffer), unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, socketBuffer)); err != nil {
			return fmt.Errorf("bound its buffers: %w", err)
		}
	}
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{}); err != nil {
		return fmt.Errorf("take SO_LINGER back: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("take its filter away: %w", err)
	}
	for level, names := range mutableOptions() {
		for _, name := range names {
			want, err := unix.GetsockoptInt(fresh, level, name)
			if err != nil {
				continue // not of this family, or this kernel
			}
			if got, err := unix.GetsockoptInt(fd, level, name); err == nil && got == want {
				continue
			}
			_ = unix.SetsockoptInt(fd, level, name, want)
			switch got, err := unix.GetsockoptInt(fd, level, name); {
			case err != nil:
				return fmt.Errorf("read option %d of level %d: %w", name, level, err)
			case got != want:
				return fmt.Errorf("option %d of level %d is %d and stays so, want %d", name, level, got, want)
			}
		}
	}
	return nil
}

// closeWithoutLinger closes a socket that a gate has had. The gate may have made a connection
// of it, with unsent data and SO_LINGER: close(2) by this process, or by systemd for its
// store, would wait for that. Without SO_LINGER it does not.
func closeWithoutLinger(fd int) {
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{})
	_ = unix.Close(fd)
}

// listenAt makes a listening socket for a child that serves others than clients.
// Where the address is "::" it listens on every one of either family.
func listenAt(at netip.AddrPort) (fd int, err error) {
	network, address := "tcp6", at.String()
	switch {
	case at.Addr().Is4():
		network = "tcp4"
	case at.Addr().IsUnspecified(): // on a host without IPv6 too
		network, address = "tcp", net.JoinHostPort("", strconv.Itoa(int(at.Port())))
	}
	return newListeningSocket(net.ListenConfig{KeepAlive: -1}, network, address)
}

func newListeningSocket(config net.ListenConfig, network, address string) (fd int, err error) {
	// No protocol on a public port that the table says nothing about.
	config.SetMultipathTCP(false)
	ln, err := config.Listen(context.Background(), network, address)
	if err != nil {
		return -1, err
	}
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return -1, errors.Join(fmt.Errorf("the listener is a %T", ln), ln.Close())
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return -1, errors.Join(err, ln.Close())
	}
	var duplicate error
	err = raw.Control(func(old uintptr) { fd, duplicate = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, duplicate, ln.Close()); err != nil {
		return -1, fmt.Errorf("keep the socket: %w", err)
	}
	return fd, nil
}

// socketBuffer bounds what the kernel keeps for one client in each direction:
// a head has 8 KiB, an answer hardly more than its fields. Left to themselves
// the buffers of a few thousand hostile clients would grow to gigabytes. It is set
// before listen: accepted sockets inherit it, and the window is advertised
// accordingly (tcp(7), SO_RCVBUF).
const socketBuffer = 16 << 10

const storePrefix = "port-"

// storeName is the name of a port's listening socket in the descriptor store.
func storeName(port uint16) string { return storePrefix + strconv.Itoa(int(port)) }

// inheritedListeners takes over the listening sockets of a former process of this unit,
// by their ports. What is none, or not one that is named so, is let go: the
// store's content is what some other version of this program has left.
func inheritedListeners(log *slog.Logger, store *systemd.DescriptorStore) map[uint16]int {
	kept := make(map[uint16]int)
	for name, fd := range systemd.InheritedDescriptors() {
		port, err := listeningPort(fd)
		if err == nil && name != storeName(port) {
			err = fmt.Errorf("it listens on port %d", port)
		}
		if err == nil {
			kept[port] = fd
			continue
		}
		log.Warn(fmt.Sprintf("descriptor %q in systemd's store is not ours; letting it go", name), slog.String("event", "store"), slog.Any("error", err))
		closeWithoutLinger(fd)
		if store != nil {
			_ = store.Remove(name)
		}
	}
	return kept
}

// listeningPort is the port that a socket like those of listen listens on.
func listeningPort(fd int) (uint16, error) {
	for _, want := range []struct{ option, value int }{
		{unix.SO_PROTOCOL, unix.IPPROTO_TCP}, {unix.SO_ACCEPTCONN, 1},
	} {
		value, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, want.option)
		if err != nil {
			return 0, fmt.Errorf("ask what it is: %w", err)
		}
		if value != want.value {
			return 0, errors.New("it is no listening TCP socket")
		}
	}
	local, err := unix.Getsockname(fd)
	if err != nil {
		return 0, fmt.Errorf("ask where it listens: %w", err)
	}
	var address netip.AddrPort
	switch local := local.(type) {
	case *unix.SockaddrInet4: // on a host without IPv6
		address = netip.AddrPortFrom(netip.AddrFrom4(local.Addr), uint16(local.Port)) //nolint:gosec // a port
	case *unix.SockaddrInet6:
		address = netip.AddrPortFrom(netip.AddrFrom16(local.Addr), uint16(local.Port)) //nolint:gosec // a port
	}
	if !address.IsValid() || !address.Addr().IsUnspecified() {
		return 0, errors.New("it does not listen on every address")
	}
	return address.Port(), nil
}
