// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// newTestListener is what the gate makes of a listening socket.
func newTestListener(t *testing.T) *net.TCPListener {
	t.Helper()
	fd, err := listen(0)
	must(t, err)
	file := os.NewFile(uintptr(fd), "listener")
	defer file.Close()
	ln, err := net.FileListener(file)
	must(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		t.Fatalf("it is a %T", ln)
	}
	return tcp
}

func TestListenerIsPlainTCPWithSmallBuffers(t *testing.T) {
	t.Parallel()
	ln := newTestListener(t)
	client, err := net.Dial("tcp", ln.Addr().String())
	must(t, err)
	defer client.Close()
	accepted, err := ln.AcceptTCP()
	must(t, err)
	defer accepted.Close()
	raw, err := accepted.SyscallConn()
	must(t, err)
	if err := raw.Control(func(fd uintptr) {
		if protocol, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PROTOCOL); err != nil || protocol != unix.IPPROTO_TCP {
			t.Errorf("protocol %d, %v; want TCP", protocol, err)
		}
		for name, option := range map[string]int{"receive": unix.SO_RCVBUF, "send": unix.SO_SNDBUF} {
			// The kernel doubles what is set, for its own bookkeeping (socket(7)).
			if size, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, option); err != nil || size > 2*socketBuffer {
				t.Errorf("%s buffer of %d bytes, %v", name, size, err)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// What comes out of the descriptor store is looked at before it is believed.
func TestListeningPort(t *testing.T) {
	t.Parallel()
	socket := func(listen func() (net.Listener, error)) int {
		t.Helper()
		ln, err := listen()
		must(t, err)
		t.Cleanup(func() { _ = ln.Close() })
		file, err := ln.(interface{ File() (*os.File, error) }).File() //nolint:forcetypeassert // each has it
		must(t, err)
		t.Cleanup(func() { _ = file.Close() })
		return int(file.Fd())
	}
	ours, err := listen(0)
	must(t, err)
	t.Cleanup(func() { _ = unix.Close(ours) })
	if port, err := listeningPort(ours); err != nil || port == 0 {
		t.Errorf("our own: %d, %v", port, err)
	}
	v4 := socket(func() (net.Listener, error) {
		var plain net.ListenConfig
		plain.SetMultipathTCP(false)
		return plain.Listen(t.Context(), "tcp4", "0.0.0.0:0")
	})
	if port, err := listeningPort(v4); err != nil || port == 0 {
		t.Errorf("one of a host without IPv6: %d, %v", port, err)
	}
	null, err := os.Open(os.DevNull)
	must(t, err)
	t.Cleanup(func() { _ = null.Close() })
	plain, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { _ = unix.Close(plain) })
	for name, fd := range map[string]int{
		"a file":                    int(null.Fd()),
		"a socket that listens not": plain,
		"one address alone":         socket(func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }),
		"a unix socket":             socket(func() (net.Listener, error) { return net.Listen("unix", t.TempDir()+"/s") }),
		"a descriptor that is none": 1 << 20,
	} {
		if port, err := listeningPort(fd); err == nil {
			t.Errorf("%s: port %d", name, port)
		}
	}
}

// What is too large for a gate does not cost the gate, and is said.
func TestTooLargeCommand(t *testing.T) {
	t.Parallel()
	near, gate := newConnPair(t)
	log := &nstest.Log{}
	// There is no process that could be killed.
	d := &proxyManager{log: slog.New(slog.NewTextHandler(log, nil)), process: &proxyProcess{&child.Process{Conn: near}}}
	large := [][]byte{make([]byte, 9<<20+1)} // 12 MiB as text, which is what a message holds
	d.SetTrust(&ingress.CABundle{Roots: large})
	if text := log.String(); !strings.Contains(text, "upstream.trustedCA") || !strings.Contains(text, "too large") {
		t.Errorf("the journal has %s", text)
	}
	through := []ingress.EgressRoute{{Ingress: netip.MustParseAddrPort("192.0.2.6:443"), Proxy: ingress.EgressProxy{Name: "proxy.test"}}}
	d.SetEgress(egressDecision{Egress: ingress.Egress{Routes: through, ProxyCAs: ingress.CABundle{Roots: large}, AdditionalCAs: ingress.CABundle{Roots: [][]byte{{1}}}}})
	if text := log.String(); strings.Count(text, "level=ERROR") != 2 || !strings.Contains(text, "egressProxy.trustedCA") {
		t.Errorf("the journal has %s", text)
	}
	o, _, err := gate.ReceiveCommand()
	if err != nil || o.Egress == nil || len(o.Egress.Routes) != 1 || len(o.Egress.AdditionalCAs.Roots) != 0 {
		t.Errorf("the gate is told %+v, %v", o, err)
	}
}

// A socket that lingers over data which nobody reads holds nobody up.
func TestCloseWithoutLinger(t *testing.T) {
	t.Parallel()
	ln := newTestListener(t)
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(ln.Addr().(*net.TCPAddr).Port))) //nolint:forcetypeassert // "tcp"
	must(t, err)
	must(t, conn.SetWriteDeadline(time.Now().Add(time.Second)))
	for err == nil {
		_, err = conn.Write(make([]byte, 1<<20))
	}
	file, err := conn.(*net.TCPConn).File() //nolint:forcetypeassert // "tcp"
	must(t, err)
	fd, err := unix.Dup(int(file.Fd()))
	must(t, err)
	must(t, unix.SetNonblock(fd, false))
	must(t, unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 600}))
	// Else theirs is not the last descriptor.
	_, _ = file.Close(), conn.Close()
	closed := make(chan struct{})
	go func() {
		closeWithoutLinger(fd)
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(nstest.Timeout):
		t.Error("the socket lingers")
	}
}

// Whatever a gate has done to the listening socket is gone with it. Where it cannot be
// taken back the next gate gets another socket, to which clients come at once, and those
// of the old one are served.
func TestListenersOfNextProxy(t *testing.T) {
	nstest.Require(t)
	nstest.Run(t, "ip", "link", "add", "d0", "type", "veth", "peer", "name", "d1")
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", "d0").Run() })
	filter := func(fd int) error {
		none := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &none})
	}
	for name, tt := range map[string]struct {
		sockets int // that the next gate gets
		spoil   func(fd int) error
	}{
		"nothing":          {1, func(int) error { return nil }},
		"IP_MINTTL":        {1, func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MINTTL, 255) }},
		"SO_RCVBUF":        {1, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1) }},
		"TCP_DEFER_ACCEPT": {1, func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 3600) }},
		"SO_BINDTODEVICE":  {1, func(fd int) error { return unix.BindToDevice(fd, "d0") }},
		"SO_ATTACH_FILTER": {1, filter},
		"SO_LOCK_FILTER": {2, func(fd int) error {
			return errors.Join(filter(fd), unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_LOCK_FILTER, 1))
		}},
		"shutdown": {1, func(fd int) error { return unix.Shutdown(fd, unix.SHUT_RD) }},
	} {
		t.Run(name, func(t *testing.T) {
			d, _, gate, g := newProxyManagerTest(t)
			d.listeners, d.configured = make(map[uint16]int), true
			old, err := listen(0)
			must(t, err)
			port, err := listeningPort(old)
			must(t, err)
			d.storeListener(port, old)
			dial := func() (net.Conn, error) {
				return net.DialTimeout("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))), time.Second)
			}
			before, err := dial() // it waits in the old backlog
			must(t, err)
			defer before.Close()
			must(t, tt.spoil(old))
			for later := range 3 { // gates
				want := 1
				if later == 0 {
					want = tt.sockets
				}
				d.attach(g)
				var sockets []int
				for len(sockets) < want {
					o, fd, err := gate.ReceiveCommand()
					must(t, err)
					if o.Listen != nil {
						sockets = append(sockets, fd)
					}
				}
				fresh := sockets[len(sockets)-1]
				for range 20 {
					conn, err := dial()
					if err != nil {
						t.Fatalf("a client: %v", err)
					}
					_ = conn.Close()
				}
				must(t, unix.SetNonblock(fresh, true))
				for range 20 {
					// The last segment of a handshake may come after the client's connect.
					_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fresh), Events: unix.POLLIN}}, 5000)
					fd, _, err := unix.Accept4(fresh, unix.SOCK_CLOEXEC)
					if err != nil {
						t.Fatalf("a client did not arrive at the new socket: %v", err)
					}
					_ = unix.Close(fd)
				}
				for _, fd := range sockets {
					_ = unix.Close(fd)
				}
			}
			for port, fd := range d.listeners {
				d.releaseListener(port, fd)
			}
		})
	}
}
