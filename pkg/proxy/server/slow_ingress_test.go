// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// validationTimeout is the time that a validation has. CAs wait for 10 s.
	validationTimeout = 3 * time.Second
	// slowRoute is the latency of the route that the flood requests.
	slowRoute = time.Minute
	// slowPath is under the prefix. The ingress answers it after slowRoute.
	slowPath = "/.well-known/acme-challenge/slow"
)

// slowFlood is many valid challenges for routes that answer after slowRoute. A process of its own
// sends them.
type slowFlood struct {
	Sources []netip.Addr
	Clients int
	Host    string     // with the number of the client in place of #
	CA      netip.Addr // the source of a CA
	// Unbounded removes the bound of each source.
	Unbounded bool
	Whole     bool   // with the service's defaults
	Port      uint16 // of the server
}

// slowFloodVariable is the environment variable that makes this program the clients of a flood.
const slowFloodVariable = "HTTP01_PROXYD_SLOW_FLOOD"

// TestSlowIngress: a CA is answered in time, and requests that are not forwarded too, while a
// flood for slow routes takes all slots, or all slots of the CA's own source. The limits are the
// defaults, or a quarter of them in the same proportions. With the race detector, which takes most of
// the time itself, everything is smaller.
func TestSlowIngress(t *testing.T) {
	addresses := func(n int, at func(i byte) netip.Addr) (all []netip.Addr) {
		for i := range n {
			all = append(all, at(byte(i)))
		}
		return all
	}
	ipv4 := addresses(40, func(i byte) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 5, 1 + i}) })
	networks := addresses(256, func(i byte) netip.Addr { // of a /56
		return netip.AddrFrom16([16]byte{0xfd, 0x4e, 0x5f, 0x2a, 0x9c, 0x0f, 0xaa, i, 15: 1})
	})
	own := netip.MustParseAddr("127.0.6.1")
	const oneHost, sameHost, manyHosts = "slow.example.com", "api.example.com", "slow-#.example.com"
	for name, flood := range map[string]slowFlood{
		"40 sources":                         {Sources: ipv4, Clients: 40 * 212, Host: oneHost, CA: own, Whole: true},
		"40 sources, the host of the CA":     {Sources: ipv4, Clients: 40 * 212, Host: sameHost, CA: own},
		"40 sources, a host for each client": {Sources: ipv4, Clients: 40 * 212, Host: manyHosts, CA: own},
		"networks of a /56":                  {Sources: networks, Clients: 40 * 212, Host: oneHost, CA: own},
		"networks of a /56, many hosts":      {Sources: networks, Clients: 40 * 212, Host: manyHosts, CA: own},
		"the source of the CA":               {Sources: ipv4[:1], Clients: 1000, Host: oneHost, CA: ipv4[0], Whole: true},
		"the source of the CA, many hosts":   {Sources: ipv4[:1], Clients: 1000, Host: manyHosts, CA: ipv4[0]},
		"without a bound for each source": {
			Sources: ipv4[:1], Clients: 6000, Host: oneHost, CA: ipv4[0], Unbounded: true,
		},
	} {
		t.Run(name, func(t *testing.T) { flood.run(t) })
	}
}

func (flood slowFlood) run(t *testing.T) {
	t.Helper()
	s := protocol.Configure{
		MaxConnections: 4096, PerSource: 256, HeadTimeout: 5 * time.Second,
		Upstream: ingress.Upstream{Timeout: slowRoute}, HeadBytes: 8192,
	}
	part := 4 // the proportions count
	switch {
	case raceOverhead > 0:
		part = 8
	case flood.Whole:
		part = 1
	}
	s.MaxConnections, s.PerSource, flood.Clients = s.MaxConnections/part, s.PerSource/part, flood.Clients/part
	if flood.Unbounded {
		s.PerSource = 0
	}
	// As in the service: the event loops keep their processors while they wait briefly.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	f := startServer(t, s, startIngress(t, func(tcp *net.TCPConn, r *bufio.Reader) {
		for head := readHead(r); head != ""; head = readHead(r) {
			if strings.Contains(head, slowPath) {
				slow, stop := context.WithTimeout(t.Context(), slowRoute)
				writesAndWaits("")(slow, tcp)
				stop()
				return
			}
			if _, err := io.WriteString(tcp, okResponse); err != nil {
				return
			}
		}
	}))
	ln, err := net.Listen("tcp", "[::]:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	serveUntilStop(t, f.Server, testListener{ln.(*net.TCPListener), f.addr})
	flood.Port = uint16(ln.Addr().(*net.TCPAddr).Port)
	flood.start(t)
	// Each new challenge can take the slot of one that waited for long enough: the queue may be empty.
	slots := s.MaxConnections
	if s.PerSource > 0 {
		slots = min(slots, s.PerSource*len(flood.Sources))
	}
	nstest.Await(t, "the flood has the slots", func() bool { return f.InFlight() >= slots*9/10 })
	for what, request := range map[string]struct{ text, want string }{
		"a validation": {challengeRequest, "token.key"},
		"another path": {"GET " + report.TestPath + " HTTP/1.1\r\nHost: a\r\n\r\n", reqhead.OnlyChallenges},
	} {
		longest, next, failures := time.Duration(0), time.NewTicker(100*time.Millisecond), 0
		for range 10 {
			<-next.C
			begin := time.Now()
			got, err := requestFrom(t.Context(), flood.CA, flood.Port, request.text, validationTimeout, func() {})
			if err != nil || !strings.HasSuffix(got, request.want) {
				t.Logf("%s was answered %q, %v, after %v", what, got, err, time.Since(begin))
				failures++
			}
			longest = max(longest, time.Since(begin))
		}
		next.Stop()
		if failures > 1 { // one may meet a pause of this machine; before, most fail
			t.Errorf("%s: %d of 10 failed", what, failures)
		}
		t.Logf("%s took %v at most, with %d challenges in the queue", what, longest, f.Queued())
	}
}

// TestBurst: a busy ingress answers each challenge after 1.5 s. Two sources, such as CAs, each send more
// challenges than the slots of a source, for one host and for many. All are answered.
func TestBurst(t *testing.T) {
	const clients, latency = 300, 1500 * time.Millisecond
	s := testSettings()
	s.PerSource = 256
	f := startServer(t, s, startIngress(t, func(tcp *net.TCPConn, r *bufio.Reader) {
		for head := readHead(r); head != ""; head = readHead(r) {
			<-time.After(latency)
			if _, err := io.WriteString(tcp, okResponse); err != nil {
				return
			}
		}
	}))
	var all sync.WaitGroup
	for i := range 2 * clients {
		from, host := netip.AddrFrom4([4]byte{127, 0, 7, 1}), "api.example.com"
		if i%2 > 0 {
			from, host = from.Next(), strconv.Itoa(i)+".example.com"
		}
		all.Go(func() {
			request := strings.Replace(challengeRequest, "api.example.com", host, 1)
			got, err := requestFrom(t.Context(), from, f.addr.Port(), request, testTimeout, func() {})
			if err != nil || !strings.HasSuffix(got, "token.key") {
				t.Errorf("a challenge for %s was answered %q, %v", host, got, err)
			}
		})
	}
	all.Wait()
}

// start starts the clients. They run at a lower priority: an attacker's clients use other
// processors.
func (flood slowFlood) start(t *testing.T) {
	t.Helper()
	if flood.Sources[0].Is6() {
		nstest.Require(t)
		nstest.Run(t, "ip", "-6", "route", "replace", "local", "fd4e:5f2a:9c0f:aa00::/56", "dev", "lo")
	}
	parameters, err := json.Marshal(flood)
	if err != nil {
		t.Fatal(err)
	}
	clients := exec.Command("nice", "-n", "10", os.Args[0])
	clients.Env = append(os.Environ(), slowFloodVariable+"="+string(parameters))
	clients.Stderr = os.Stderr
	input, err := clients.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := clients.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := clients.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close() // ends it
		if err := clients.Wait(); err != nil {
			t.Error(err)
		}
	})
	if _, err := output.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

// runSlowFlood is the process of the clients. It writes a byte when all of them connected, and
// ends with its standard input. Clients that come back at once would show how fast this machine is.
func runSlowFlood(parameters string) error {
	var flood slowFlood
	if err := json.Unmarshal([]byte(parameters), &flood); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	var clients sync.WaitGroup
	var connected atomic.Int64
	count := func() {
		if connected.Add(1) == int64(flood.Clients) {
			_, _ = os.Stdout.Write([]byte{'\n'})
		}
	}
	for i := range flood.Clients {
		from := flood.Sources[i%len(flood.Sources)]
		host := strings.ReplaceAll(flood.Host, "#", strconv.Itoa(i))
		request := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", slowPath, host)
		clients.Go(func() {
			ticker := time.NewTicker(2 * time.Second)
			defer ticker.Stop()
			for ; ctx.Err() == nil; waitTick(ctx, ticker) {
				_, _ = requestFrom(ctx, from, flood.Port, request, slowRoute, count)
			}
		})
	}
	clients.Wait()
	return nil
}

// requestFrom sends a request from an address to the port of the server, and returns the
// response, all within a time.
func requestFrom(
	ctx context.Context, from netip.Addr, port uint16, request string, limit time.Duration, connected func(),
) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
	if from.Is6() {
		to = netip.AddrPortFrom(netip.IPv6Loopback(), port)
	}
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Control: bindToRoute}
	conn, err := dialer.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return "", err
	}
	connected()
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	_ = conn.(*net.TCPConn).SetLinger(0) // no TIME_WAIT: ports are few
	if _, err := io.WriteString(conn, request); err != nil {
		return "", err
	}
	b, err := io.ReadAll(conn)
	return string(b), err
}

// bindToRoute permits the addresses of a local route as the source, which no link has (ipv6(7)).
func bindToRoute(network, _ string, raw syscall.RawConn) (err error) {
	if network != "tcp6" {
		return nil
	}
	controlled := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1)
	})
	return errors.Join(controlled, err)
}
