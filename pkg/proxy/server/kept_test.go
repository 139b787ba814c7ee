// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
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
