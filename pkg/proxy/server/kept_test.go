// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
)

// requestTo returns a challenge request for a host.
func requestTo(host string) string {
	return strings.Replace(challengeRequest, "api.example.com", host, 1)
}

// TestUnrequestedBytesStayWithTheirHost: an ingress that sends one more response a moment after each
// one affects clients of the same host only. Its bytes can arrive after the next request on the
// connection, where they look like the response to it.
func TestUnrequestedBytesStayWithTheirHost(t *testing.T) {
	const clients, requests = 4, 100
	hosts := [...]string{"api.example.com", "app.example.com", "api.example.net", "[2001:db8::1]", "192.0.2.1"}
	for _, microseconds := range []int{0, 50, 300, 1000, 5000} {
		delay := time.Duration(microseconds) * time.Microsecond
		t.Run(delay.String(), func(t *testing.T) {
			router := startIngress(t, func(tcp *net.TCPConn, r *bufio.Reader) {
				for head := readHead(r); head != ""; head = readHead(r) {
					_, host, _ := strings.Cut(head, "Host: ")
					host, _, _ = strings.Cut(host, "\r\n")
					response := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(host), host)
					_, _ = io.WriteString(tcp, response)
					<-time.After(delay)
					_, _ = io.WriteString(tcp, response) // a write to a closed connection fails
				}
			})
			f := startServer(t, testSettings(), router)
			var all sync.WaitGroup
			for client := range clients {
				all.Go(func() {
					foreign := 0
					for i := range requests {
						host := hosts[(client+i)%len(hosts)]
						if got := roundTrip(t, f.addr, requestTo(host)); !strings.HasSuffix(got, "\r\n\r\n"+host) {
							foreign++
						}
					}
					if foreign > 0 {
						t.Errorf("%d of %d clients got the response for another host", foreign, requests)
					}
				})
			}
			all.Wait()
		})
	}
}

// setSysctls sets values of net.ipv4 until the test ends.
func setSysctls(t *testing.T, values map[string]string) {
	t.Helper()
	nstest.Require(t)
	for key, value := range values {
		file := "/proc/sys/net/ipv4/" + key
		before := readFile(t, file)
		if err := os.WriteFile(file, []byte(value), 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.WriteFile(file, []byte(before), 0) })
	}
}

// TestClosedConnectionsTakeNoPort: with 64 ephemeral ports and a kernel that reuses none that
// waits (TIME_WAIT), many more requests than ports succeed, although the proxy closes its
// connection to the ingress after most of them.
func TestClosedConnectionsTakeNoPort(t *testing.T) {
	const requests = 300
	for name, test := range map[string]struct {
		proxyProtocol ingress.ProxyProtocol // whose connections serve one client
		hosts         int
		response      string
	}{
		"many hosts":         {ingress.ProxyProtocolOff, requests, okResponse},
		"the PROXY protocol": {ingress.ProxyProtocolV1, 1, okResponse},
		"Connection: close":  {ingress.ProxyProtocolOff, 1, strings.Replace(okResponse, "\r\n", "\r\nConnection: close\r\n", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			router := startIngress(t, func(tcp *net.TCPConn, r *bufio.Reader) {
				for readHead(r) != "" {
					_, _ = io.WriteString(tcp, test.response)
				}
			})
			s := testSettings()
			s.MaxConnections = 64 // keeps few connections
			f := startServer(t, s, router)
			f.upstream.Update(upstream.Settings{Upstream: ingress.Upstream{
				Addresses: []netip.Addr{router.Addr()}, Port: router.Port(),
				ProxyProtocol: test.proxyProtocol, ConnectTimeout: testTimeout,
			}})
			setSysctls(t, map[string]string{"ip_local_port_range": "20000 20063", "tcp_tw_reuse": "0"})
			for i := range requests {
				conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", f.addr.String())
				if err != nil {
					t.Fatal(err)
				}
				client := conn.(*net.TCPConn)
				send(t, client, requestTo(fmt.Sprintf("app-%d.example.com", i%test.hosts)))
				if got := readAll(t, client); !strings.HasSuffix(got, "token.key") {
					t.Fatalf("request %d: answered %q", i, got)
				}
				_ = client.Close()
			}
		})
	}
}

// reloadingIngress answers like a router that reloads: the connections from before a reload are
// served by its previous process, which answers one more request on each and closes it.
type reloadingIngress struct {
	reloads, connections, requests atomic.Int32

	addr  netip.AddrPort
	stale string // the response of a previous process
	fresh string // the response after a reload
}

const (
	noRoute = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
	noPath  = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
)

// startReloadingIngress starts the ingress. before is called before each response after a reload.
func startReloadingIngress(t *testing.T, stale, fresh string, before func(isStale bool)) *reloadingIngress {
	t.Helper()
	i := &reloadingIngress{stale: stale, fresh: fresh}
	i.addr = startIngress(t, func(tcp *net.TCPConn, r *bufio.Reader) {
		process := i.reloads.Load()
		i.connections.Add(1)
		for readHead(r) != "" {
			i.requests.Add(1)
			response, isStale := okResponse, process != i.reloads.Load()
			if process > 0 {
				response = i.fresh
			}
			if isStale {
				response = strings.Replace(i.stale, "\r\n", "\r\nConnection: close\r\n", 1)
			}
			if i.reloads.Load() > 0 && before != nil {
				before(isStale)
			}
			if _, err := io.WriteString(tcp, response); err != nil || isStale {
				return
			}
		}
	})
	return i
}

// forEachUpstreamRoute runs a test with requests that the event loop exchanges, and with requests
// that goroutines exchange after the first address refused the connection.
func forEachUpstreamRoute(t *testing.T, test func(t *testing.T, addresses func(netip.AddrPort) []netip.AddrPort)) {
	t.Helper()
	t.Run("direct", func(t *testing.T) {
		test(t, func(a netip.AddrPort) []netip.AddrPort { return []netip.AddrPort{a} })
	})
	t.Run("delegated", func(t *testing.T) {
		test(t, func(a netip.AddrPort) []netip.AddrPort {
			return []netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), a.Port()), a}
		})
	})
}

func statusOf(response string) string { return strings.TrimPrefix(response, "HTTP/1.1 ")[:3] }

// wantStatus sends a challenge request for a host.
func (f *testServer) wantStatus(t *testing.T, host, want string) {
	t.Helper()
	if got := roundTrip(t, f.addr, requestTo(host)); statusOf(got) != want {
		t.Errorf("%s: answered %q, want %s", host, got, want)
	}
}

// TestStaleResponse: a request that gets 503 on a kept connection is sent again on a new one, and
// its client gets the second response. No other response is repeated, and none twice.
func TestStaleResponse(t *testing.T) {
	for name, test := range map[string]struct {
		stale, fresh string
		slots        int
		method, want string
		requests     int32 // of two clients
	}{
		"of the previous process": {noRoute, okResponse, 4096, "GET", "200", 3},
		"HEAD":                    {noRoute, strings.TrimSuffix(okResponse, "token.key"), 4096, "HEAD", "200", 3},
		"of both processes":       {noRoute, noRoute, 4096, "GET", "503", 3},
		"another status":          {noPath, okResponse, 4096, "GET", "404", 2},
		"while slots are short":   {noRoute, okResponse, 1, "GET", "503", 2},
	} {
		t.Run(name, func(t *testing.T) {
			forEachUpstreamRoute(t, func(t *testing.T, addresses func(netip.AddrPort) []netip.AddrPort) {
				t.Helper()
				router := startReloadingIngress(t, test.stale, test.fresh, nil)
				s := testSettings()
				s.MaxConnections = test.slots
				f := startServerWithOneLoop(t, s, addresses(router.addr)...)
				f.wantStatus(t, "api.example.com", "200")
				router.reloads.Add(1)
				got := roundTrip(t, f.addr, strings.Replace(challengeRequest, "GET", test.method, 1))
				if status := statusOf(got); status != test.want || router.requests.Load() != test.requests {
					t.Errorf("answered %q after %d requests, want %s after %d", got, router.requests.Load(), test.want,
						test.requests)
				}
				challenges, _ := f.rec.await(t, 2)
				if c := challenges[1]; strconv.Itoa(c.Status) != test.want || c.Upstream != router.addr {
					t.Errorf("recorded %+v", c)
				}
			})
		})
	}
}

// TestNewConnectionIsNotRepeated: a 503 on a new connection is not stale.
func TestNewConnectionIsNotRepeated(t *testing.T) {
	forEachUpstreamRoute(t, func(t *testing.T, addresses func(netip.AddrPort) []netip.AddrPort) {
		t.Helper()
		router := startReloadingIngress(t, noRoute, noRoute, nil)
		router.reloads.Add(1)
		f := startServerWithOneLoop(t, testSettings(), addresses(router.addr)...)
		f.wantStatus(t, "api.example.com", "503")
		if n := router.requests.Load(); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}

// TestStaleResponseClosesKeptConnections: after a repeated request, requests for other hosts use new
// connections too. Requests for the same host are not repeated again at once.
func TestStaleResponseClosesKeptConnections(t *testing.T) {
	forEachUpstreamRoute(t, func(t *testing.T, addresses func(netip.AddrPort) []netip.AddrPort) {
		t.Helper()
		router := startReloadingIngress(t, noRoute, okResponse, nil)
		f := startServerWithOneLoop(t, testSettings(), addresses(router.addr)...)
		f.StopClock()
		hosts := []string{"a.example.com", "b.example.com", "c.example.com", "d.example.com"}
		everyHost := func() {
			for _, host := range hosts {
				f.wantStatus(t, host, "200")
			}
		}
		everyHost()
		router.reloads.Add(1)
		everyHost()
		if n, want := router.requests.Load(), int32(2*len(hosts)+1); n != want {
			t.Errorf("%d requests, want %d: one is repeated", n, want)
		}
		if n, want := router.connections.Load(), int32(2*len(hosts)); n != want {
			t.Errorf("%d connections, want %d", n, want)
		}
		router.reloads.Add(1)
		f.wantStatus(t, hosts[0], "503")
		f.wantStatus(t, hosts[1], "200")
	})
}

// TestRepeatedRequestsAreBounded: of many requests that get 503 on kept connections at the same
// time, ten are repeated. Others are repeated once these ended.
func TestRepeatedRequestsAreBounded(t *testing.T) {
	const repeated, denied = 10, 3
	forEachUpstreamRoute(t, func(t *testing.T, addresses func(netip.AddrPort) []netip.AddrPort) {
		t.Helper()
		var stale sync.WaitGroup
		stale.Add(repeated + denied)
		proceed := make(chan struct{})
		router := startReloadingIngress(t, noRoute, okResponse, func(isStale bool) {
			if isStale {
				stale.Done()
				stale.Wait()
			} else {
				waitFor(t, proceed)
			}
		})
		f := startServerWithOneLoop(t, testSettings(), addresses(router.addr)...)
		host := func(i int) string { return fmt.Sprintf("app-%d.example.com", i) }
		for i := range repeated + denied {
			f.wantStatus(t, host(i), "200")
		}
		router.reloads.Add(1)
		statuses := make(chan string, repeated+denied)
		for i := range repeated + denied {
			client := dial(t, f.addr)
			send(t, client, requestTo(host(i)))
			go func() {
				b, _ := io.ReadAll(client)
				statuses <- statusOf(string(b) + "nothing")
			}()
		}
		expect := func(n int, want string) {
			t.Helper()
			for range n {
				if got := <-statuses; got != want {
					t.Errorf("answered %s, want %s", got, want)
				}
			}
		}
		expect(denied, "503")
		close(proceed)
		expect(repeated, "200")
		stale.Add(1)
		f.wantStatus(t, host(repeated+denied), "200")
		router.reloads.Add(1)
		f.wantStatus(t, host(repeated+denied), "200")
	})
}
