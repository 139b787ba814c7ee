// SPDX-License-Identifier: Apache-2.0

package process

import (
	"net"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
)

// newTestListener returns a listening socket as the proxy process uses it.
func newTestListener(t *testing.T) *net.TCPListener {
	t.Helper()
	fd, err := listen(0)
	must(t, err)
	return openListener(t, fd)
}

func openListener(t *testing.T, fd int) *net.TCPListener {
	t.Helper()
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
	metrics, err := listenAt(netip.MustParseAddrPort("127.0.0.1:0"))
	must(t, err)
	for process, ln := range map[string]*net.TCPListener{
		"proxy": newTestListener(t), "exporter": openListener(t, metrics),
	} {
		t.Run(process, func(t *testing.T) { expectPlainTCP(t, ln) })
	}
}

func expectPlainTCP(t *testing.T, ln *net.TCPListener) {
	t.Helper()
	client, err := net.Dial("tcp", ln.Addr().String())
	must(t, err)
	defer client.Close()
	accepted, err := ln.AcceptTCP()
	must(t, err)
	defer accepted.Close()
	raw, err := accepted.SyscallConn()
	must(t, err)
	if err := raw.Control(func(fd uintptr) {
		if protocol, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PROTOCOL); err != nil ||
			protocol != unix.IPPROTO_TCP {
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

// A descriptor of the store is checked before it is used.
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
		"a file":                        int(null.Fd()),
		"a socket that does not listen": plain,
		"one address alone":             socket(func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }),
		"a unix socket":                 socket(func() (net.Listener, error) { return net.Listen("unix", t.TempDir()+"/s") }),
		"an invalid descriptor":         1 << 20,
	} {
		if port, err := listeningPort(fd); err == nil {
			t.Errorf("%s: port %d", name, port)
		}
	}
}

// TestBacklog: the kernel counts the connections that nobody accepted. A socket that a proxy
// process shut down has no room.
func TestBacklog(t *testing.T) {
	t.Parallel()
	fd, err := listen(0)
	must(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	port, err := listeningPort(fd)
	must(t, err)
	l := &Listeners{fds: map[uint16]int{port: fd}}
	for range 3 {
		client, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
		must(t, err)
		t.Cleanup(func() { _ = client.Close() })
	}
	nstest.Await(t, "three connections", func() bool { return l.backlog(port).Waiting == 3 })
	if b := l.backlog(port); !b.HasRoom() || b.Limit < 128 {
		t.Errorf("%+v", b)
	}
	must(t, unix.Shutdown(fd, unix.SHUT_RD))
	for _, port := range []uint16{port, port ^ 1} {
		if b := l.backlog(port); b.Listening || b.HasRoom() {
			t.Errorf("a port that does not listen: %+v", b)
		}
	}
}

// Giving a socket up does not wait for unsent data.
func TestGiveUpDoesNotWait(t *testing.T) {
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
	// So that fd is the last descriptor.
	_, _ = file.Close(), conn.Close()
	closed := make(chan struct{})
	go func() {
		giveUp(fd)
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(nstest.Timeout):
		t.Error("close waits for unsent data")
	}
}

// TestKeptDuplicate: a process that keeps a descriptor of a socket that was given up does not
// listen any more, and others can listen on the port.
func TestKeptDuplicate(t *testing.T) {
	t.Parallel()
	given, err := listen(0)
	must(t, err)
	port, err := listeningPort(given)
	must(t, err)
	duplicate, err := unix.Dup(given)
	must(t, err)
	t.Cleanup(func() { _ = unix.Close(duplicate) })
	for range 2 { // going back too
		giveUp(given)
		if got, err := listeningPort(duplicate); err == nil {
			t.Errorf("the duplicate listens on port %d", got)
		}
		given, err = listen(port)
		must(t, err)
	}
	giveUp(given)
}
