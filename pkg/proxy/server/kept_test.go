// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
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
