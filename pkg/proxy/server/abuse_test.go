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
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// hostileRequest makes the router below respond in a hostile way.
	hostileRequest = "GET /.well-known/acme-challenge/hostile HTTP/1.1\r\nHost: api.example.com\r\n\r\n"
	dripInterval   = 10 * time.Millisecond
	// connectionTime is how long a hostile client keeps one connection. The router keeps one
	// with hostileRequest until the test ends.
	connectionTime = 500 * time.Millisecond
)

// abuse is one way to take more than a fair share. Both sides continue until the
// connection or ctx ends.
type abuse struct {
	client func(ctx context.Context, tcp *net.TCPConn)
	router func(ctx context.Context, tcp *net.TCPConn) // answers hostileRequest; nil: a normal response
}

// writesAndWaits writes and then waits for the end of the connection.
func writesAndWaits(text string) func(context.Context, *net.TCPConn) {
	return func(ctx context.Context, tcp *net.TCPConn) {
		defer context.AfterFunc(ctx, func() { _ = tcp.Close() })()
		_, _ = io.WriteString(tcp, text)
		_, _ = io.Copy(io.Discard, tcp)
	}
}

// writesByteByByte writes first, and then one byte at a time.
func writesByteByByte(first string) func(context.Context, *net.TCPConn) {
	return func(ctx context.Context, tcp *net.TCPConn) {
		defer context.AfterFunc(ctx, func() { _ = tcp.Close() })()
		tick := time.NewTicker(dripInterval)
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

// writesEndlessly writes first, and then 1 GiB.
func writesEndlessly(first, x string) func(context.Context, *net.TCPConn) {
	block := []byte(strings.Repeat(x, 32<<10/len(x)))
	return func(ctx context.Context, tcp *net.TCPConn) {
		defer context.AfterFunc(ctx, func() { _ = tcp.Close() })()
		_, err := io.WriteString(tcp, first)
		for sent := 0; err == nil && sent < 1<<30 && ctx.Err() == nil; sent += len(block) {
			_, err = tcp.Write(block)
		}
	}
}

// abuses returns all cases.
func abuses() map[string]abuse {
	const ok = "HTTP/1.1 200 OK\r\n"
	never := writesAndWaits("")
	complete := func(_ context.Context, tcp *net.TCPConn) { // no honest request follows on this connection
		_, _ = io.WriteString(tcp, ok+"Content-Length: 65536\r\n\r\n"+strings.Repeat("x", 64<<10))
	}
	readsNothing := func(ctx context.Context, tcp *net.TCPConn) {
		_, _ = io.WriteString(tcp, hostileRequest)
		<-ctx.Done()
	}
	return map[string]abuse{
		"idle connections": {client: writesAndWaits("")},
		"slow heads":       {client: writesByteByByte("GET / HTTP/1.1\r\nX: ")},
		"half heads":       {client: writesAndWaits(challengeRequest[:40])},
		"oversized heads":  {client: writesEndlessly("GET / HTTP/1.1\r\nX: ", "x")},
		"oversized lines":  {client: writesEndlessly("GET /", "x")},
		"endless fields":   {client: writesEndlessly("GET / HTTP/1.1\r\n", "X: y\r\n")},
		"endless bodies": {client: writesEndlessly("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1073741824\r\n\r\n",
			"x")},
		"slow bodies":       {client: writesByteByByte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1073741824\r\n\r\n")},
		"endless pipelines": {client: writesEndlessly("", challengeRequest)},
		"half-closed without a head": {client: func(ctx context.Context, tcp *net.TCPConn) {
			_ = tcp.CloseWrite()
			writesAndWaits("")(ctx, tcp)
		}},
		"half-closed in the head": {client: func(ctx context.Context, tcp *net.TCPConn) {
			_, _ = io.WriteString(tcp, challengeRequest[:40])
			_ = tcp.CloseWrite()
			writesAndWaits("")(ctx, tcp)
		}},
		"half-closed, not reading": {
			client: func(ctx context.Context, tcp *net.TCPConn) {
				_, _ = io.WriteString(tcp, hostileRequest)
				_ = tcp.CloseWrite()
				<-ctx.Done()
			},
			router: complete,
		},
		"reset in the head": {client: func(_ context.Context, tcp *net.TCPConn) {
			_, _ = io.WriteString(tcp, challengeRequest[:40])
			_ = tcp.SetLinger(0)
		}},
		"reset while the answer is waited for": {
			client: func(_ context.Context, tcp *net.TCPConn) {
				_, _ = io.WriteString(tcp, hostileRequest)
				_ = tcp.SetLinger(0)
			},
			router: never,
		},
		"reset in the answer": {
			client: func(_ context.Context, tcp *net.TCPConn) {
				_, _ = io.WriteString(tcp, hostileRequest)
				_, _ = tcp.Read(make([]byte, 512))
				_ = tcp.SetLinger(0)
			},
			router: complete,
		},
		"slow readers": {
			client: readsNothing,
			router: complete,
		},
		"an upstream that never answers": {client: writesAndWaits(hostileRequest), router: never},
		"an upstream of single bytes":    {client: writesAndWaits(hostileRequest), router: writesByteByByte(ok + "X: ")},
		"an upstream of single bytes of body": {
			client: writesAndWaits(hostileRequest),
			router: writesByteByByte(ok + "\r\n"),
		},
		"an upstream of 1 GiB": {client: writesAndWaits(hostileRequest), router: writesEndlessly(ok+"\r\n", "x")},
		"an upstream of 1 GiB, by length": {
			client: writesAndWaits(hostileRequest),
			router: writesEndlessly(ok+"Content-Length: 1073741824\r\n\r\n", "x"),
		},
		"an upstream of 1 GiB in small chunks, not read": {
			client: readsNothing, router: writesEndlessly(ok+"Transfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"),
		},
		"an upstream of 1 GiB of interim answers": {
			client: writesAndWaits(hostileRequest),
			router: writesEndlessly("", "HTTP/1.1 100 Continue\r\n\r\n"),
		},
	}
}

// serverSockets counts the open sockets of the server: those accepted at its own
// port, and those connected to the router's. The clients and the router are in the
// same process, and close their ends at any time.
func serverSockets(t *testing.T, own, router uint16) (count int) {
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
	for line := range strings.Lines(readFile(t, "/proc/self/net/tcp")) {
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

// minServerSockets is serverSockets with a wait. An evicted connection keeps its
// sockets until its goroutine runs, which takes a while on a busy machine.
func minServerSockets(t *testing.T, own, router uint16, limit int) int {
	t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	least := serverSockets(t, own, router)
	for i := 0; i < 50 && least > limit; i++ {
		<-look.C
		least = min(least, serverSockets(t, own, router))
	}
	return least
}

// TestAbuse runs more hostile clients than slots, from several sources. Each one
// reconnects after its connection ended. The memory and sockets of the process
// stay bounded, honest clients are served, and nothing remains afterwards.
func TestAbuse(t *testing.T) {
	const (
		clients, requests = 150, 6
		atLeast           = 300 * time.Millisecond
		memoryLimit       = 256 << 20 // more than before; with the race detector, and both ends in one process
	)
	// The timeouts are the service's own. On a busy machine a goroutine of the server or of a
	// client can be late by a second.
	s := protocol.Configure{
		MaxConnections: 32, PerSource: 8, HeadTimeout: 5 * time.Second,
		Upstream: ingress.Upstream{Timeout: slowRoute}, HeadBytes: 8192,
	}
	for name, a := range abuses() {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			router := a.startRouter(ctx, t)
			f := startWithSmallBuffers(t, s, router)
			requestHonestly(t, f.addr) // allocates what stays allocated
			debug.FreeOSMemory()       // memory of the previous test
			fds, memory := openDescriptors(t), residentMemory(t)
			var all sync.WaitGroup
			var opened atomic.Int64
			for i := range clients {
				all.Go(func() { a.runClient(ctx, netip.AddrFrom4([4]byte{127, 0, 3, byte(i % 3)}), f.addr, &opened) })
			}
			nstest.Await(t, "the flood has begun", func() bool { return opened.Load() >= clients })
			// Two for each slot, one for each evicted connection until it
			// ends, and the idle ones.
			limit := 3*s.MaxConnections + 64
			maxSockets, maxMemory := 0, int64(0)
			for i, begin := 0, time.Now(); i < requests || time.Since(begin) < atLeast; i++ {
				requestHonestly(t, f.addr)
				maxSockets, maxMemory = max(maxSockets, minServerSockets(t, f.addr.Port(), router.Port(), limit)),
					max(maxMemory, residentMemory(t))
			}
			stop()
			all.Wait()
			if maxSockets == 0 || maxSockets > limit {
				t.Errorf("%d sockets, want %d at most", maxSockets, limit)
			}
			if maxMemory > memory+memoryLimit {
				t.Errorf("%d MiB resident, %d before", maxMemory>>20, memory>>20)
			}
			wantNoConnections(t, f)
			// The bound of each source keeps slots free for others: an honest client,
			// which may be slow to send on a busy machine, is never evicted for a slot.
			if n := f.rec.count(report.Evicted); n > 0 {
				t.Errorf("%d connections were evicted for a slot", n)
			}
			f.rec.reset()
			// Both ends of idle connections to the router stay open.
			nstest.Await(t, "all descriptors are closed", func() bool { return openDescriptors(t) <= fds+2*64 })
			t.Logf("%d hostile connections; at most %d sockets and %d MiB (%d before)", opened.Load(), maxSockets, maxMemory>>20,
				memory>>20)
		})
	}
}

// startRouter starts a router that is hostile only for hostileRequest.
func (a abuse) startRouter(ctx context.Context, t *testing.T) netip.AddrPort {
	t.Helper()
	return startIngress(t, func(tcp *net.TCPConn, r *bufio.Reader) {
		for {
			head := readHead(r)
			if head == "" {
				return
			}
			if a.router != nil && strings.Contains(head, "hostile") {
				a.router(ctx, tcp)
				return
			}
			if _, err := io.WriteString(tcp, okResponse); err != nil {
				return
			}
		}
	})
}

// runClient is one hostile client. It does not reconnect at once: the test shows
// that this process is bounded, and not that it is faster than all others on the
// machine.
func (a abuse) runClient(ctx context.Context, source netip.Addr, to netip.AddrPort, opened *atomic.Int64) {
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0)), Control: setSmallBuffers}
	ticker := time.NewTicker(connectionTime)
	defer ticker.Stop()
	for ; ctx.Err() == nil; waitTick(ctx, ticker) {
		c, err := dialer.DialContext(ctx, "tcp", to.String())
		if err != nil {
			continue
		}
		opened.Add(1)
		tcp := c.(*net.TCPConn)
		talking, stop := context.WithTimeout(ctx, connectionTime)
		a.client(talking, tcp)
		stop()
		_ = tcp.Close()
	}
}

func waitTick(ctx context.Context, tick *time.Ticker) {
	select {
	case <-ctx.Done():
	case <-tick.C:
	}
}

// startWithSmallBuffers is startServer with the small socket buffers of the
// service. Bytes that a slow reader does not take stay in this process.
func startWithSmallBuffers(t *testing.T, s protocol.Configure, router netip.AddrPort) *testServer {
	t.Helper()
	f := startServer(t, s, router)
	config := net.ListenConfig{Control: setSmallBuffers}
	ln, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	f.addr = ln.Addr().(*net.TCPAddr).AddrPort()
	serveUntilStop(t, f.Server, testListener{ln.(*net.TCPListener), f.addr})
	return f
}

func setSmallBuffers(_, _ string, raw syscall.RawConn) (err error) {
	_ = raw.Control(func(fd uintptr) {
		for _, option := range []int{syscall.SO_RCVBUF, syscall.SO_SNDBUF} {
			if e := syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, option, 8<<10); e != nil {
				err = e
			}
		}
	})
	return err
}

func requestHonestly(t *testing.T, to netip.AddrPort) {
	t.Helper()
	tcp := dialFrom(t, "127.0.2.1", to)
	send(t, tcp, challengeRequest)
	if got := readAll(t, tcp); !strings.HasSuffix(got, "token.key") {
		t.Errorf("an honest client was answered %q", got)
	}
	_ = tcp.Close()
}

// openDescriptors counts the open descriptors of this process.
func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// residentMemory returns the resident memory of this process.
func residentMemory(t *testing.T) int64 {
	t.Helper()
	for line := range strings.Lines(readFile(t, "/proc/self/status")) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	t.Fatal("/proc/self/status has no VmRSS")
	return 0
}
