// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/server"
)

const (
	// hostile asks for what the router below makes trouble with.
	hostile = "GET /.well-known/acme-challenge/hostile HTTP/1.1\r\nHost: api.example.com\r\n\r\n"
	drip    = 10 * time.Millisecond
	// talk is how long a hostile client stays on one connection, and the router on one
	// that asked for hostile. It bounds the wait of an honest client for a slot.
	talk = 500 * time.Millisecond
)

// abuse is one way to take more than one's share. Both sides go on until the
// connection or ctx ends.
type abuse struct {
	client func(ctx context.Context, tcp *net.TCPConn)
	router func(ctx context.Context, tcp *net.TCPConn) // answers hostile; nil: as any other
}

// says writes and then waits for the end.
func says(text string) func(context.Context, *net.TCPConn) {
	return func(ctx context.Context, tcp *net.TCPConn) {
		defer context.AfterFunc(ctx, func() { _ = tcp.Close() })()
		_, _ = io.WriteString(tcp, text)
		_, _ = io.Copy(io.Discard, tcp)
	}
}

// drips writes first, and then byte by byte.
func drips(first string) func(context.Context, *net.TCPConn) {
	return func(ctx context.Context, tcp *net.TCPConn) {
		defer context.AfterFunc(ctx, func() { _ = tcp.Close() })()
		tick := time.NewTicker(drip)
		defer tick.Stop()
		_, err := io.WriteString(tcp, first)
		for err == nil {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				_, err = io.WriteString(tcp, "x")
			}
		}
	}
}

// pours writes first, and then 1 GiB.
func pours(first, x string) func(context.Context, *net.TCPConn) {
	block := []byte(strings.Repeat(x, 32<<10/len(x)))
	return func(ctx context.Context, tcp *net.TCPConn) {
		defer context.AfterFunc(ctx, func() { _ = tcp.Close() })()
		_, err := io.WriteString(tcp, first)
		for sent := 0; err == nil && sent < 1<<30 && ctx.Err() == nil; sent += len(block) {
			_, err = tcp.Write(block)
		}
	}
}

// abuses are all that is played.
func abuses() map[string]abuse {
	const ok = "HTTP/1.1 200 OK\r\n"
	never := says("")
	readsNothing := func(ctx context.Context, tcp *net.TCPConn) {
		_, _ = io.WriteString(tcp, hostile)
		<-ctx.Done()
	}
	return map[string]abuse{
		"idle connections":  {client: says("")},
		"slow heads":        {client: drips("GET / HTTP/1.1\r\nX: ")},
		"half heads":        {client: says(challenge[:40])},
		"oversized heads":   {client: pours("GET / HTTP/1.1\r\nX: ", "x")},
		"oversized lines":   {client: pours("GET /", "x")},
		"endless fields":    {client: pours("GET / HTTP/1.1\r\n", "X: y\r\n")},
		"endless bodies":    {client: pours("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1073741824\r\n\r\n", "x")},
		"slow bodies":       {client: drips("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1073741824\r\n\r\n")},
		"endless pipelines": {client: pours("", challenge)},
		"half-closed without a head": {client: func(ctx context.Context, tcp *net.TCPConn) {
			_ = tcp.CloseWrite()
			says("")(ctx, tcp)
		}},
		"half-closed in the head": {client: func(ctx context.Context, tcp *net.TCPConn) {
			_, _ = io.WriteString(tcp, challenge[:40])
			_ = tcp.CloseWrite()
			says("")(ctx, tcp)
		}},
		"half-closed, not reading": {
			client: func(ctx context.Context, tcp *net.TCPConn) {
				_, _ = io.WriteString(tcp, hostile)
				_ = tcp.CloseWrite()
				<-ctx.Done()
			},
			router: says(ok + "Content-Length: 65536\r\n\r\n" + strings.Repeat("x", 64<<10)),
		},
		"reset in the head": {client: func(_ context.Context, tcp *net.TCPConn) {
			_, _ = io.WriteString(tcp, challenge[:40])
			_ = tcp.SetLinger(0)
		}},
		"reset while the answer is waited for": {
			client: func(_ context.Context, tcp *net.TCPConn) {
				_, _ = io.WriteString(tcp, hostile)
				_ = tcp.SetLinger(0)
			},
			router: never,
		},
		"reset in the answer": {
			client: func(_ context.Context, tcp *net.TCPConn) {
				_, _ = io.WriteString(tcp, hostile)
				_, _ = tcp.Read(make([]byte, 512))
				_ = tcp.SetLinger(0)
			},
			router: says(ok + "Content-Length: 65536\r\n\r\n" + strings.Repeat("x", 64<<10)),
		},
		"slow readers":                        {client: readsNothing, router: says(ok + "Content-Length: 65536\r\n\r\n" + strings.Repeat("x", 64<<10))},
		"an upstream that never answers":      {client: says(hostile), router: never},
		"an upstream of single bytes":         {client: says(hostile), router: drips(ok + "X: ")},
		"an upstream of single bytes of body": {client: says(hostile), router: drips(ok + "\r\n")},
		"an upstream of 1 GiB":                {client: says(hostile), router: pours(ok+"\r\n", "x")},
		"an upstream of 1 GiB, by length":     {client: says(hostile), router: pours(ok+"Content-Length: 1073741824\r\n\r\n", "x")},
		"an upstream of 1 GiB in small chunks, not read": {
			client: readsNothing, router: pours(ok+"Transfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"),
		},
		"an upstream of 1 GiB of interim answers": {client: says(hostile), router: pours("", "HTTP/1.1 100 Continue\r\n\r\n")},
	}
}

// ownSockets is how many sockets the gate has open: those that it has accepted at its
// own port, and those that it has connected to the router's. The clients and the router
// are in the same process, and close their ends whenever they run.
func ownSockets(t *testing.T, own, router uint16) (count int) {
	t.Helper()
	port := func(address string) uint16 {
		_, text, _ := strings.Cut(address, ":")
		number, err := strconv.ParseUint(text, 16, 16)
		if err != nil {
			t.Fatalf("read the port of %q: %v", address, err)
		}
		return uint16(number)
	}
	const listening, closed = "0A", "0" // the state, and the inode of a socket without a descriptor
	for line := range strings.Lines(fileText(t, "/proc/self/net/tcp")) {
		fields := strings.Fields(line)
		if fields[0] == "sl" || fields[3] == listening || fields[9] == closed {
			continue
		}
		if port(fields[1]) == own || port(fields[2]) == router {
			count++
		}
	}
	return count
}

// settledSockets is ownSockets, where a connection that has to leave is given time: it
// has its sockets until its goroutine runs, which takes a while on a busy machine.
func settledSockets(t *testing.T, own, router uint16, limit int) int {
	t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	least := ownSockets(t, own, router)
	for i := 0; i < 50 && least > limit; i++ {
		<-look.C
		least = min(least, ownSockets(t, own, router))
	}
	return least
}

// TestAbuse has more hostile clients than slots, of several sources, each of
// which begins anew when it is thrown out: what the process holds is bounded,
// honest clients are served all the while, and nothing is left afterwards.
func TestAbuse(t *testing.T) {
	const (
		clients, requests = 150, 6
		atLeast           = 300 * time.Millisecond
		most              = 256 << 20 // more than before; with the race detector, and both ends in one process
	)
	// The time limits are those of the service: on a machine that does much else, a
	// goroutine of the gate or of a client may be late by a second.
	s := server.Settings{MaxConnections: 32, PerSource: 8, HeadTimeout: 5 * time.Second, Timeout: 8 * time.Second, HeadBytes: 8192}
	for name, a := range abuses() {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			router := a.ingress(ctx, t)
			f := startSmall(t, s, router)
			askHonestly(t, f.addr) // what is there once
			debug.FreeOSMemory()   // what the test before has left
			fds, memory := descriptors(t), resident(t)
			var all sync.WaitGroup
			var opened atomic.Int64
			for i := range clients {
				all.Go(func() { a.goOn(ctx, netip.AddrFrom4([4]byte{127, 0, 3, byte(i % 3)}), f.addr, &opened) })
			}
			nstest.Await(t, "the flood has begun", func() bool { return opened.Load() >= clients })
			// Two for each slot, one of those that have to leave, until they have run, and
			// the kept ones.
			limit := 3*s.MaxConnections + 64
			maxSockets, maxMemory := 0, int64(0)
			for i, begin := 0, time.Now(); i < requests || time.Since(begin) < atLeast; i++ {
				askHonestly(t, f.addr)
				maxSockets, maxMemory = max(maxSockets, settledSockets(t, f.addr.Port(), router.Port(), limit)), max(maxMemory, resident(t))
			}
			stop()
			all.Wait()
			if maxSockets == 0 || maxSockets > limit {
				t.Errorf("%d sockets, want %d at most", maxSockets, limit)
			}
			if maxMemory > memory+most {
				t.Errorf("%d MiB resident, %d before", maxMemory>>20, memory>>20)
			}
			wantNoLeftovers(t, f)
			f.rec.forget()
			// Both ends of what is kept to the router stay open.
			nstest.Await(t, "all descriptors are closed", func() bool { return descriptors(t) <= fds+2*64 })
			t.Logf("%d hostile connections; at most %d sockets and %d MiB (%d before)", opened.Load(), maxSockets, maxMemory>>20, memory>>20)
		})
	}
}

// ingress is a router that makes trouble with hostile only.
func (a abuse) ingress(ctx context.Context, t *testing.T) netip.AddrPort {
	t.Helper()
	return ingress(t, "127.0.0.1:0", func(tcp *net.TCPConn, r *bufio.Reader) {
		for {
			head := readHead(r)
			if head == "" {
				return
			}
			if a.router != nil && strings.Contains(head, "hostile") {
				holding, stop := context.WithTimeout(ctx, talk)
				defer stop()
				a.router(holding, tcp)
				return
			}
			if _, err := io.WriteString(tcp, plain); err != nil {
				return
			}
		}
	})
}

// goOn is one hostile client. It does not come back at once: what is shown is
// that this process is bounded, not that it outruns all others on the machine.
func (a abuse) goOn(ctx context.Context, source netip.Addr, to netip.AddrPort, opened *atomic.Int64) {
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0)), Control: smallBuffers}
	again := time.NewTicker(talk)
	defer again.Stop()
	for ; ctx.Err() == nil; pause(ctx, again) {
		c, err := dialer.DialContext(ctx, "tcp", to.String())
		if err != nil {
			continue
		}
		opened.Add(1)
		tcp := c.(*net.TCPConn)
		talking, stop := context.WithTimeout(ctx, talk)
		a.client(talking, tcp)
		stop()
		_ = tcp.Close()
	}
}

func pause(ctx context.Context, tick *time.Ticker) {
	select {
	case <-ctx.Done():
	case <-tick.C:
	}
}

// startSmall is start with the small socket buffers that the service sets: what
// a slow reader does not take waits in this process.
func startSmall(t *testing.T, s server.Settings, router netip.AddrPort) *front {
	t.Helper()
	f := start(t, s, router)
	config := net.ListenConfig{Control: smallBuffers}
	ln, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	front := take(t, ln.(*net.TCPListener))
	served(t, f.Gate, front, func() {})
	f.addr = front.Addr().(*net.TCPAddr).AddrPort()
	return f
}

func smallBuffers(_, _ string, raw syscall.RawConn) (err error) {
	_ = raw.Control(func(fd uintptr) {
		for _, option := range []int{syscall.SO_RCVBUF, syscall.SO_SNDBUF} {
			if e := syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, option, 8<<10); e != nil {
				err = e
			}
		}
	})
	return err
}

func askHonestly(t *testing.T, to netip.AddrPort) {
	t.Helper()
	tcp := dialFrom(t, "127.0.2.1", to)
	send(t, tcp, challenge)
	if got := receive(t, tcp); !strings.HasSuffix(got, "token.key") {
		t.Errorf("an honest client was answered %q", got)
	}
	_ = tcp.Close()
}

// descriptors is how many this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// resident is the memory of this process.
func resident(t *testing.T) int64 {
	t.Helper()
	for line := range strings.Lines(fileText(t, "/proc/self/status")) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	t.Fatal("/proc/self/status has no VmRSS")
	return 0
}
