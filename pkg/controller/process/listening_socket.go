// SPDX-License-Identifier: Apache-2.0

package process

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

	"github.com/http01-proxyd/http01-proxyd/internal/sockopt"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
)

// listen creates a listening socket on a port of every address. It is not in the poller of
// this process: connections wake the proxy process alone.
func listen(port uint16) (fd int, err error) {
	// Connections are short and bounded, so they need no TCP keep-alive.
	config := net.ListenConfig{KeepAlive: -1, Control: sockopt.BufferSizes(socketBuffer)}
	return newListeningSocket(config, "tcp", net.JoinHostPort("", strconv.Itoa(int(port))))
}

// listenReusePort creates another listening socket on the port of old, which gets all new
// connections. Handshakes that old began complete there. Only processes of this user
// can join the group (SO_REUSEPORT, socket(7)).
func listenReusePort(port uint16, old int) (fd int, err error) {
	// The kernel checks it when the other socket is bound (inet_csk_bind_conflict).
	if err := unix.SetsockoptInt(old, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return -1, fmt.Errorf("share port %d: %w", port, err)
	}
	buffers := sockopt.BufferSizes(socketBuffer)
	config := net.ListenConfig{KeepAlive: -1, Control: func(network, address string, conn syscall.RawConn) error {
		share := func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }
		return errors.Join(sockopt.Control(conn, share), buffers(network, address, conn))
	}}
	if fd, err = newListeningSocket(config, "tcp", net.JoinHostPort("", strconv.Itoa(int(port)))); err != nil {
		return -1, err
	}
	// The second socket of the group gets every connection. Once it is alone it is the
	// first, and the kernel ignores the filter (reuseport_select_sock).
	second := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 1}
	program := unix.SockFprog{Len: 1, Filter: &second}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &program); err != nil {
		return -1, errors.Join(fmt.Errorf("attach the filter of port %d: %w", port, err), unix.Close(fd))
	}
	return fd, nil
}

// mutableOptions are the options with which a process that shares a listening socket can
// affect later clients. Connections inherit them.
func mutableOptions() map[int][]int {
	return map[int][]int{
		unix.SOL_SOCKET: {
			unix.SO_KEEPALIVE, unix.SO_BROADCAST, unix.SO_DONTROUTE, unix.SO_OOBINLINE, unix.SO_MARK, unix.SO_PRIORITY,
			unix.SO_RCVLOWAT, unix.SO_BINDTOIFINDEX, unix.SO_RCVBUF, unix.SO_SNDBUF,
		},
		unix.IPPROTO_IP: {
			unix.IP_MINTTL, unix.IP_TTL, unix.IP_TOS, unix.IP_TRANSPARENT, unix.IP_FREEBIND, unix.IP_MTU_DISCOVER,
		},
		unix.IPPROTO_IPV6: {
			unix.IPV6_MINHOPCOUNT, unix.IPV6_UNICAST_HOPS, unix.IPV6_TCLASS, unix.IPV6_TRANSPARENT, unix.IPV6_MTU_DISCOVER,
		},
		unix.IPPROTO_TCP: {
			unix.TCP_NODELAY, unix.TCP_DEFER_ACCEPT, unix.TCP_KEEPIDLE, unix.TCP_KEEPINTVL, unix.TCP_KEEPCNT,
			unix.TCP_SYNCNT, unix.TCP_LINGER2, unix.TCP_WINDOW_CLAMP, unix.TCP_USER_TIMEOUT, unix.TCP_FASTOPEN,
			unix.TCP_NOTSENT_LOWAT, unix.TCP_SAVE_SYN,
		},
	}
}

// errNotCompared means that this process lacks what a comparison needs, such as a descriptor:
// the socket can be as it must be.
var errNotCompared = errors.New("create a socket for comparison")

// resetOptions gives a listening socket that a proxy process shared the options of a new one.
// The error names what cannot be reset.
func resetOptions(fd int) error {
	if _, err := listeningPort(fd); err != nil {
		return err
	}
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return fmt.Errorf("query the socket: %w", err)
	}
	reference, err := unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotCompared, err)
	}
	defer unix.Close(reference)
	for _, option := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF} {
		if err := errors.Join(
			unix.SetsockoptInt(reference, unix.SOL_SOCKET, option, socketBuffer),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, socketBuffer),
		); err != nil {
			return fmt.Errorf("set its buffer sizes: %w", err)
		}
	}
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{}); err != nil {
		return fmt.Errorf("reset SO_LINGER: %w", err)
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("detach its filter: %w", err)
	}
	delayAcknowledgments(fd)
	for level, names := range mutableOptions() {
		for _, name := range names {
			want, err := unix.GetsockoptInt(reference, level, name)
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
				return fmt.Errorf("option %d of level %d stays at %d, want %d", name, level, got, want)
			}
		}
	}
	return nil
}

// giveUp closes a socket that a proxy process shared, and that no later process gets. The
// process can keep a descriptor, but it cannot listen again: shutdown ends that for every
// holder, and others can listen on the port (inet_csk_bind_conflict, because of SO_REUSEADDR).
//
// The process may have turned the socket into a connection with unsent data and SO_LINGER. Then
// close(2) by this process, or by systemd for its store, would wait for the data. Without
// SO_LINGER it does not.
func giveUp(fd int) {
	_ = unix.Shutdown(fd, unix.SHUT_RD)
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{})
	_ = unix.Close(fd)
}

// listenAt creates a listening socket on one address. "::" is every address of either
// family.
func listenAt(at netip.AddrPort) (fd int, err error) {
	network, address := "tcp6", at.String()
	switch {
	case at.Addr().Is4():
		network = "tcp4"
	case at.Addr().IsUnspecified(): // on a host without IPv6 too
		network, address = "tcp", net.JoinHostPort("", strconv.Itoa(int(at.Port())))
	}
	config := net.ListenConfig{KeepAlive: -1, Control: sockopt.BufferSizes(socketBuffer)}
	return newListeningSocket(config, network, address)
}

func newListeningSocket(config net.ListenConfig, network, address string) (fd int, err error) {
	// Multipath TCP would be a second protocol, which the table's rules do not match.
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
		return -1, fmt.Errorf("duplicate the socket: %w", err)
	}
	delayAcknowledgments(fd)
	return fd, nil
}

// delayAcknowledgments makes the kernel send the acknowledgment of a request with its response,
// which saves a packet for each connection (TCP_QUICKACK, tcp(7)). Connections inherit it only
// from a socket that listens already.
func delayAcknowledgments(fd int) { _ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 0) }

// socketBuffer bounds what the kernel buffers for one client in each direction: a request head
// is at most 8 KiB long, and a response, or the metrics, not much longer. Without the bound,
// the buffers of a few thousand hostile clients would grow to gigabytes. It is set before
// listen: accepted sockets inherit it, and the kernel advertises the window accordingly
// (tcp(7), SO_RCVBUF).
const socketBuffer = 16 << 10

const storePrefix = "port-"

// storeName returns the name of a port's listening socket in the descriptor store.
func storeName(port uint16) string { return storePrefix + strconv.Itoa(int(port)) }

// inheritedSockets takes over the listening sockets of the previous process of this unit, by
// port. Every other descriptor is closed: another version of this program may have left it in
// the store.
func inheritedSockets(log *slog.Logger, store *systemd.DescriptorStore) map[uint16]int {
	listeners := make(map[uint16]int)
	for name, fd := range systemd.InheritedDescriptors() {
		port, err := listeningPort(fd)
		if err == nil && name != storeName(port) {
			err = fmt.Errorf("it listens on port %d", port)
		}
		if err == nil {
			listeners[port] = fd
			continue
		}
		message := fmt.Sprintf("descriptor %q in systemd's store is not a listening socket of this service "+
			"and was closed", name)
		log.Warn(message, slog.String("event", "store"), slog.Any("error", err))
		giveUp(fd)
		if store != nil {
			_ = store.Remove(name)
		}
	}
	return listeners
}

// listeningPort returns the port of a socket, which must be like the sockets of listen.
func listeningPort(fd int) (uint16, error) {
	for _, want := range []struct{ option, value int }{
		{unix.SO_PROTOCOL, unix.IPPROTO_TCP}, {unix.SO_ACCEPTCONN, 1},
	} {
		value, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, want.option)
		if err != nil {
			return 0, fmt.Errorf("query the socket: %w", err)
		}
		if value != want.value {
			return 0, errors.New("not a listening TCP socket")
		}
	}
	local, err := unix.Getsockname(fd)
	if err != nil {
		return 0, fmt.Errorf("query its address: %w", err)
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
