// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/child"
	"github.com/http01-proxyd/http01-proxyd/pkg/control"
	"github.com/http01-proxyd/http01-proxyd/pkg/internal/nstest"
)

// listener is what the gate makes of a listening socket.
func listener(t *testing.T) *net.TCPListener {
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
	ln := listener(t)
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
func TestListensOn(t *testing.T) {
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
	if port, err := listensOn(ours); err != nil || port == 0 {
		t.Errorf("our own: %d, %v", port, err)
	}
	v4 := socket(func() (net.Listener, error) {
		var plain net.ListenConfig
		plain.SetMultipathTCP(false)
		return plain.Listen(t.Context(), "tcp4", "0.0.0.0:0")
	})
	if port, err := listensOn(v4); err != nil || port == 0 {
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
		if port, err := listensOn(fd); err == nil {
			t.Errorf("%s: port %d", name, port)
		}
	}
}

// What is too large for a gate does not cost the gate, and is said.
func TestOrderThatIsTooLarge(t *testing.T) {
	t.Parallel()
	near, gate := connected(t)
	log := &nstest.Log{}
	// There is no process that could be killed.
	d := &door{log: slog.New(slog.NewTextHandler(log, nil)), gate: &gateProcess{&child.Process{Conn: near}}}
	large := [][]byte{make([]byte, 9<<20+1)} // 12 MiB as text, which is what a message holds
	d.Trust(&control.Trust{Roots: large})
	if text := log.String(); !strings.Contains(text, "upstream.trustedCA") || !strings.Contains(text, "too large") {
		t.Errorf("the journal has %s", text)
	}
	through := []control.Through{{Ingress: netip.MustParseAddrPort("192.0.2.6:443"), Proxy: control.EgressProxy{Name: "proxy.test"}}}
	d.Egress(control.Egress{Through: through, Proxies: control.Trust{Roots: large}, Beyond: control.Trust{Roots: [][]byte{{1}}}})
	if text := log.String(); strings.Count(text, "level=ERROR") != 2 || !strings.Contains(text, "egressProxy.trustedCA") {
		t.Errorf("the journal has %s", text)
	}
	o, _, err := gate.ReceiveOrder()
	if err != nil || o.Egress == nil || len(o.Egress.Through) != 1 || len(o.Egress.Beyond.Roots) != 0 {
		t.Errorf("the gate is told %+v, %v", o, err)
	}
}

// A gate that was taken over can shut a listening socket down for all who share
// it: the next gate gets another.
func TestSocketThatWasShutDown(t *testing.T) {
	t.Parallel()
	d := &door{log: slog.New(slog.DiscardHandler), open: make(map[uint16]int)}
	old, err := listen(0)
	must(t, err)
	port, err := listensOn(old)
	must(t, err)
	d.open[port] = old
	if got := d.sound(port, old); got != old {
		t.Errorf("a sound socket was replaced: %d by %d", old, got)
	}
	must(t, unix.Shutdown(old, unix.SHUT_RD))
	fresh := d.sound(port, old)
	t.Cleanup(func() { _ = unix.Close(fresh) })
	if again, err := listensOn(fresh); err != nil || again != port || d.open[port] != fresh {
		t.Errorf("port %d, %v; the door has %v", again, err, d.open)
	}
}
