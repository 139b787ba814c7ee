// SPDX-License-Identifier: Apache-2.0

package tcp_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/tcp"
)

const testTimeout = 30 * time.Second

// listen makes a listening socket with package net, duplicates its descriptor and
// closes the original.
func listen(t *testing.T, address string) *tcp.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	raw, err := ln.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	fd := -1
	if controlled := raw.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) }); err != nil || controlled != nil {
		t.Fatal(err, controlled)
	}
	l, err := tcp.NewListener(fd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// connect opens a connection to l and accepts it.
func connect(t *testing.T, l *tcp.Listener, address string) (client *net.TCPConn, c *tcp.Conn) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c = new(tcp.Conn)
	if err := l.Accept(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	client, ok := conn.(*net.TCPConn)
	if !ok {
		t.Fatalf("it is a %T", conn)
	}
	if err := errors.Join(client.SetDeadline(time.Now().Add(testTimeout)), c.SetReadDeadline(time.Now().Add(testTimeout))); err != nil {
		t.Fatal(err)
	}
	return client, c
}

func addrOf(a net.Addr) netip.AddrPort { return netip.MustParseAddrPort(a.String()) }

// TestAddresses: both sides report the same addresses, IPv4 unmapped on a wildcard
// socket.
func TestAddresses(t *testing.T) {
	t.Parallel()
	l := listen(t, ":0")
	port := addrOf(l.Addr()).Port()
	for _, host := range []string{"127.0.0.1", "::1"} {
		address := netip.AddrPortFrom(netip.MustParseAddr(host), port)
		client, c := connect(t, l, address.String())
		if c.Local() != address || c.Remote() != addrOf(client.LocalAddr()) {
			t.Errorf("%v: local %v, remote %v; the client is %v", address, c.Local(), c.Remote(), client.LocalAddr())
		}
	}
}

func TestReadAndWrite(t *testing.T) {
	t.Parallel()
	l := listen(t, "127.0.0.1:0")
	client, c := connect(t, l, l.Addr().String())
	if _, err := client.Write([]byte("request")); err != nil {
		t.Fatal(err)
	}
	if err := client.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); string(got) != "request" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	if _, err := c.Write([]byte("answer")); err != nil {
		t.Error(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(client); string(got) != "answer" || err != nil {
		t.Errorf("the client read %q, %v", got, err)
	}
}

// TestInheritedOptions: connections have the options of the listener, and no
// others.
func TestInheritedOptions(t *testing.T) {
	t.Parallel()
	l := listen(t, "127.0.0.1:0")
	_, c := connect(t, l, l.Addr().String())
	if err := c.Control(func(fd int) error {
		for name, option := range map[string]struct{ level, option, want int }{
			"TCP_NODELAY":  {unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
			"SO_KEEPALIVE": {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 0},
		} {
			if got, err := unix.GetsockoptInt(fd, option.level, option.option); got != option.want || err != nil {
				t.Errorf("%s is %d, %v", name, got, err)
			}
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); flags&unix.FD_CLOEXEC == 0 || err != nil {
			t.Errorf("a program that is started would inherit it: %d, %v", flags, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	l := listen(t, "127.0.0.1:0")
	_, c := connect(t, l, l.Addr().String())
	past := time.Unix(1, 0)
	if err := c.SetReadDeadline(past); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: %v", err)
	}
	_, c = connect(t, l, l.Addr().String())
	if err := c.SetWriteDeadline(past); err != nil {
		t.Fatal(err)
	}
	// The part that the socket's buffer takes is written at once.
	if n, err := c.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 {
		t.Errorf("write of more than fits: %d, %v", n, err)
	}
	if err := l.SetDeadline(past); err != nil {
		t.Fatal(err)
	}
	if err := l.Accept(new(tcp.Conn)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("accept: %v", err)
	}
	if err := l.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	connect(t, l, l.Addr().String())
}

// TestPollerOnlyWhenBlocked: available bytes are read, and bytes that fit are
// written, without the poller, whatever the deadline, and without allocations.
// Blocking calls use the poller, and transfer everything in order.
func TestPollerOnlyWhenBlocked(t *testing.T) {
	l := listen(t, "127.0.0.1:0")
	client, c := connect(t, l, l.Addr().String())
	if err := errors.Join(c.SetReadDeadline(time.Unix(1, 0)), c.SetWriteDeadline(time.Unix(1, 0))); err != nil {
		t.Fatal(err)
	}
	request, response := []byte("request"), []byte("answer")
	got, back := make([]byte, 100), make([]byte, len(response))
	allocations := testing.AllocsPerRun(100, func() {
		if _, err := client.Write(request); err != nil {
			t.Error(err)
		}
		for !c.HasUnread() {
			runtime.Gosched()
		}
		if n, err := c.Read(got); string(got[:n]) != "request" || err != nil {
			t.Errorf("read %q, %v", got[:n], err)
		}
		if n, err := c.Write(response); n != len(response) || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
		if _, err := io.ReadFull(client, back); err != nil {
			t.Error(err)
		}
	})
	if allocations > 0 {
		t.Errorf("%v allocations", allocations)
	}

	if err := errors.Join(c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Now().Add(testTimeout))); err != nil {
		t.Fatal(err)
	}
	much := make([]byte, 32<<20)
	for i := range much {
		much[i] = byte(i >> 8)
	}
	read := make(chan error, 1)
	go func() {
		all := make([]byte, len(much))
		_, err := io.ReadFull(client, all)
		if err == nil && !bytes.Equal(all, much) {
			err = errors.New("not what was written")
		}
		_, last := client.Write(request)
		read <- errors.Join(err, last)
	}()
	if n, err := c.Write(much); n != len(much) || err != nil {
		t.Errorf("wrote %d, %v", n, err)
	}
	if n, err := c.Read(got); string(got[:n]) != "request" || err != nil {
		t.Errorf("read %q, %v", got[:n], err)
	}
	if err := <-read; err != nil {
		t.Error(err)
	}
}

// TestConcurrentUse: other goroutines may inspect a connection, shorten its
// deadline and close it during reads and writes.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	l := listen(t, "127.0.0.1:0")
	for i := range 50 {
		client, c := connect(t, l, l.Addr().String())
		var group sync.WaitGroup
		group.Go(func() {
			for {
				if _, err := c.Read(make([]byte, 10)); err != nil {
					return
				}
				if _, err := c.Write([]byte("y")); err != nil {
					return
				}
			}
		})
		group.Go(func() { _, _ = client.Write([]byte("x")) })
		group.Go(func() { c.HasUnread() })
		group.Go(func() {
			switch i % 3 {
			case 0:
				_ = c.Close()
			case 1:
				_ = c.Reset()
			default:
				_ = c.SetReadDeadline(time.Unix(1, 0))
			}
		})
		group.Wait()
		if err := c.Close(); i%3 < 2 && !errors.Is(err, os.ErrClosed) {
			t.Errorf("closed again: %v", err)
		}
		if c.HasUnread() {
			t.Error("a closed connection has unread bytes")
		}
	}
}

// TestClose: blocked calls return after Close.
func TestClose(t *testing.T) {
	t.Parallel()
	l := listen(t, "127.0.0.1:0")
	_, c := connect(t, l, l.Addr().String())
	ended := make(chan error, 2)
	go func() {
		ended <- l.Accept(new(tcp.Conn))
	}()
	go func() {
		_, err := c.Read(make([]byte, 1))
		ended <- err
	}()
	if err := errors.Join(c.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := <-ended; !errors.Is(err, os.ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
	if err := l.SetDeadline(time.Now()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("afterwards: %v", err)
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	l := listen(t, "127.0.0.1:0")
	client, c := connect(t, l, l.Addr().String())
	if err := c.Reset(); err != nil {
		t.Error(err)
	}
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the client got %v", err)
	}
}

func TestInvalidDescriptor(t *testing.T) {
	t.Parallel()
	if _, err := tcp.NewListener(-1); !errors.Is(err, unix.EBADF) {
		t.Errorf("got %v", err)
	}
}
