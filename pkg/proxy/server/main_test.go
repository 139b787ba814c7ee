// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/server"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

func TestMain(m *testing.M) {
	if parameters := os.Getenv(slowFloodVariable); parameters != "" {
		if err := runSlowFlood(parameters); err != nil {
			panic(err)
		}
		return
	}
	nstest.Main(m)
}

// testTimeout bounds every wait of a test. Only a failing test reaches it.
const testTimeout = nstest.Timeout

// testSettings set bounds that no correct run reaches.
func testSettings() protocol.Configure {
	return protocol.Configure{
		MaxConnections: 4096, HeadTimeout: testTimeout,
		Upstream: ingress.Upstream{Timeout: testTimeout}, HeadBytes: 8192,
	}
}

// recorder stores the reports of the server.
type recorder struct {
	mu          sync.Mutex
	challenges  []report.Challenge
	rejections  []report.Rejection
	clientKinds []report.ClientKind // of the rejections
	accept      []error             // failures of accept
	selfTests   []protocol.SelfTested
	tests       [][2]netip.Addr // sources and VIPs of test requests
	changed     chan struct{}
}

func newRecorder() *recorder { return &recorder{changed: make(chan struct{}, 1)} }

func (r *recorder) RecordChallenge(c report.Challenge, why *cause.Failure) {
	if why != nil {
		c.Detail = why.Summary(cause.Context{})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.challenges = append(r.challenges, c)
	r.notify()
}

func (r *recorder) RecordSelfTest(tested protocol.SelfTested) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.selfTests = append(r.selfTests, tested)
	r.notify()
}

func (r *recorder) RecordRejection(why report.Rejection, asker report.ClientKind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rejections, r.clientKinds = append(r.rejections, why), append(r.clientKinds, asker)
	r.notify()
}

func (r *recorder) RecordTestRequest(source, vip netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tests = append(r.tests, [2]netip.Addr{source, vip})
	r.notify()
}

func (r *recorder) RecordAcceptFailure(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accept = append(r.accept, err)
}

func (r *recorder) acceptFailures() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accept
}

// reset drops the reports, which occupy memory too.
func (r *recorder) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.challenges, r.rejections, r.clientKinds = nil, nil, nil
}

// count returns the number of rejections of a kind.
func (r *recorder) count(why report.Rejection) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rejection := range r.rejections {
		if rejection == why {
			n++
		}
	}
	return n
}

func (r *recorder) notify() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// await waits until n connections were reported and returns the reports.
func (r *recorder) await(t testing.TB, n int) ([]report.Challenge, []report.Rejection) {
	t.Helper()
	timeout := time.After(testTimeout)
	for {
		r.mu.Lock()
		challenges, rejections := r.challenges, r.rejections
		r.mu.Unlock()
		if len(challenges)+len(rejections) >= n {
			return challenges, rejections
		}
		select {
		case <-r.changed:
		case <-timeout:
			t.Fatalf("%d connections reported, want %d", len(challenges)+len(rejections), n)
		}
	}
}

// testServer is a running server with the real upstream client.
type testServer struct {
	*server.Server
	rec      *recorder
	upstream *upstream.Client
	addr     netip.AddrPort
	stop     func()
}

// startServer runs a server on a loopback address of its own. Everything ends with
// the test.
func startServer(t testing.TB, s protocol.Configure, routers ...netip.AddrPort) *testServer {
	t.Helper()
	up := upstream.New()
	us := upstream.Settings{Upstream: ingress.Upstream{ConnectTimeout: testTimeout}, MaxConnections: s.MaxConnections}
	for _, a := range routers {
		us.Addresses, us.Port = append(us.Addresses, a.Addr()), a.Port()
	}
	up.Update(us)
	f := &testServer{rec: newRecorder(), upstream: up}
	t.Cleanup(func() { checkNoGoroutines(t) })
	f.Server = newServer(t, s, up, f.rec, func() {})
	ln := newListener(t)
	f.addr = ln.addr
	f.stop = serveUntilStop(t, f.Server, ln)
	t.Cleanup(func() {
		f.stop()
		wantDrained(t, f.Server)
		up.Close()
	})
	return f
}

// startServerWithOneLoop is startServer with one event loop. No other test may run beside it.
func startServerWithOneLoop(t testing.TB, s protocol.Configure, routers ...netip.AddrPort) *testServer {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	return startServer(t, s, routers...)
}

// newServer returns a server whose event loops run until the test ends.
func newServer(t testing.TB, s protocol.Configure, up server.Upstream, rec server.Recorder,
	beat func(),
) *server.Server {
	t.Helper()
	g, err := server.New(&s, up, rec)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx, func(string) (func(), func()) { return beat, func() {} }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return g
}

// serveUntilStop lets the server accept from a listener until stop is called or the test ends.
func serveUntilStop(t testing.TB, g *server.Server, ln testListener) (stop func()) {
	t.Helper()
	fd := ln.duplicate(t)
	if err := g.Listen(fd); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() { g.StopListening(fd) })
	t.Cleanup(stop)
	return stop
}

// checkNoGoroutines checks that no goroutine of either package is left.
func checkNoGoroutines(t testing.TB) {
	t.Helper()
	text := ""
	if !nstest.Poll(func() bool {
		var b bytes.Buffer
		_ = pprof.Lookup("goroutine").WriteTo(&b, 2)
		text = b.String()
		return !strings.Contains(text, "server.(*") && !strings.Contains(text, "loop.(*") &&
			!strings.Contains(text, "upstream.(*")
	}) {
		t.Fatalf("remaining goroutines:\n%s", text)
	}
}

// testListener is a listening socket that the test holds too.
type testListener struct {
	*net.TCPListener

	addr netip.AddrPort
}

// newListener returns a listener for the server.
func newListener(t testing.TB) testListener {
	t.Helper()
	ln := listen(t)
	return testListener{ln, ln.Addr().(*net.TCPAddr).AddrPort()}
}

// duplicate returns a descriptor of the socket for a server.
func (l testListener) duplicate(t testing.TB) (fd int) {
	t.Helper()
	raw, err := l.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if controlled := raw.Control(
		func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) }); controlled != nil || err != nil {
		t.Fatal(controlled, err)
	}
	return fd
}

func listen(t testing.TB) *net.TCPListener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln.(*net.TCPListener)
}

func dial(t testing.TB, addr netip.AddrPort) *net.TCPConn {
	t.Helper()
	tcp, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tcp.Close() })
	if err := tcp.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	return tcp
}

func send(t testing.TB, tcp *net.TCPConn, text string) {
	t.Helper()
	if _, err := io.WriteString(tcp, text); err != nil {
		t.Fatal(err)
	}
}

// readAll reads until the peer closes the connection in order.
func readAll(t testing.TB, tcp *net.TCPConn) string {
	t.Helper()
	b, err := io.ReadAll(tcp)
	if err != nil {
		t.Fatalf("after %q: %v", b, err)
	}
	return string(b)
}

// roundTrip sends one request and returns the whole response.
func roundTrip(t testing.TB, addr netip.AddrPort, request string) string {
	t.Helper()
	tcp := dial(t, addr)
	send(t, tcp, request)
	return readAll(t, tcp)
}

const (
	challengeRequest = "GET /.well-known/acme-challenge/token-of-more-than-8 HTTP/1.1\r\nHost: api.example.com\r\n\r\n"
	okResponse       = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\ntoken.key"
)

// startIngress accepts connections and calls handler with each connection and a reader
// of it.
func startIngress(t testing.TB, handler func(tcp *net.TCPConn, r *bufio.Reader)) netip.AddrPort {
	t.Helper()
	ln := listen(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	open := map[*net.TCPConn]struct{}{}
	all.Go(func() {
		for {
			tcp, err := ln.AcceptTCP()
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					t.Errorf("ingress: %v", err)
				}
				return
			}
			mu.Lock()
			open[tcp] = struct{}{}
			mu.Unlock()
			all.Go(func() {
				handler(tcp, bufio.NewReader(tcp))
				_ = tcp.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		mu.Lock()
		for tcp := range open {
			_ = tcp.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

// readHead reads through the empty line. It returns "" at the end of the
// connection.
func readHead(r *bufio.Reader) string {
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			return ""
		}
		if line == "\r\n" {
			return b.String()
		}
	}
}

// answerAll answers each request on a connection with okResponse.
func answerAll(tcp *net.TCPConn, r *bufio.Reader) {
	for readHead(r) != "" {
		if _, err := io.WriteString(tcp, okResponse); err != nil {
			return
		}
	}
}

func readFile(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
