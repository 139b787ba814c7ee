// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
)

// TestEgress: an egress decision of the controller applies until the next one.
func TestEgress(t *testing.T) {
	requests := make(chan string, 10)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r.RequestURI + " " + r.Header.Get("Proxy-Authorization")
		w.WriteHeader(http.StatusAccepted)
	}))
	defer proxy.Close()
	var router netip.AddrPort
	k := startProxy(t, func(_ http.ResponseWriter, r *http.Request) {
		local := r.Context().Value(http.LocalAddrContextKey).(net.Addr) //nolint:forcetypeassert // the server sets this type
		router = netip.MustParseAddrPort(local.String())
	})
	defer k.stop()
	k.listen()
	if code := k.get(token); code != 200 {
		t.Fatalf("%d directly", code)
	}
	k.command(protocol.Command{Configure: configure(router, &ingress.Egress{Routes: []ingress.EgressRoute{{
		Ingress: router,
		Proxy: ingress.EgressProxy{
			Name: "proxy.example", Addrs: []netip.AddrPort{netip.MustParseAddrPort(proxy.Listener.Addr().String())},
			Authorization: ingress.NewSecret("Basic dTpw"),
		},
	}}})}, -1)
	k.awaitFlushed()
	if code := k.get(token); code != http.StatusAccepted {
		t.Fatalf("%d through the proxy", code)
	}
	host, _, _ := net.SplitHostPort(strings.TrimPrefix(k.url, "http://"))
	_, port, _ := net.SplitHostPort(router.String())
	if got, want := <-requests, "http://"+net.JoinHostPort(host, port)+token+" Basic dTpw"; got != want {
		t.Errorf("the egress proxy received %q, want %q", got, want)
	}
	k.command(protocol.Command{Configure: configure(router, &ingress.Egress{})}, -1)
	k.awaitFlushed()
	if code := k.get(token); code != 200 || len(requests) > 0 {
		t.Errorf("%d directly again", code)
	}
}

// TestEgressChangesWithConfiguration: while the port of the ingress changes under
// load, no challenge bypasses the proxy. Nobody answers there.
func TestEgressChangesWithConfiguration(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
	}))
	defer proxy.Close()
	k := startProxy(t, func(http.ResponseWriter, *http.Request) {})
	defer k.stop()
	change := func(port uint16) {
		at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
		k.command(protocol.Command{Configure: configure(at, &ingress.Egress{Routes: []ingress.EgressRoute{{
			Ingress: at,
			Proxy: ingress.EgressProxy{
				Name: "proxy.example", Addrs: []netip.AddrPort{netip.MustParseAddrPort(proxy.Listener.Addr().String())},
			},
		}}})}, -1)
		k.awaitFlushed()
	}
	change(1)
	k.listen()
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if code := k.get(token); code != http.StatusAccepted {
					t.Errorf("%d", code)
					return
				}
			}
		})
	}
	for i := range uint16(40) {
		change(2 - i%2)
	}
	close(stop)
	load.Wait()
}

// TestProxyProtocol: the header contains the client, and the VIP with the port of
// the client's request. It does not contain the port that the proxy listens on.
func TestProxyProtocol(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	received := make(chan string, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		b := bufio.NewReader(conn)
		line, _ := b.ReadString('\n')
		received <- line
		if _, err := http.ReadRequest(b); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
		}
	}()
	k := startProxy(t, func(http.ResponseWriter, *http.Request) {})
	defer k.stop()
	at := netip.MustParseAddrPort(ln.Addr().String())
	c := configure(at, nil)
	c.Upstream.ProxyProtocol = ingress.ProxyProtocolV1
	k.command(protocol.Command{Configure: c}, -1)
	k.listen()
	if code := k.get(token); code != http.StatusAccepted {
		t.Errorf("%d", code)
	}
	if line := <-received; !strings.HasPrefix(line, "PROXY TCP4 127.0.0.1 127.0.0.1 ") || !strings.HasSuffix(line, " 80\r\n") {
		t.Errorf("the router received %q", line)
	}
}

// awaitFlushed waits until the previous commands were executed.
func (k *testController) awaitFlushed() {
	k.Helper()
	k.command(protocol.Command{Flush: &protocol.Flush{}}, -1)
	k.awaitEvent("the end of the flush", func(w protocol.Event) bool { return w.Flushed != nil })
}
