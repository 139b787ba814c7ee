// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// silentAddress returns an address that drops connection attempts: the backlog of its
// socket is full and nobody accepts.
func silentAddress(t *testing.T) netip.AddrPort {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	inet, ok := name.(*unix.SockaddrInet4)
	if !ok {
		t.Fatalf("it has the address %v", name)
	}
	addr := netip.AddrPortFrom(netip.AddrFrom4(inet.Addr), uint16(inet.Port))
	for range 8 {
		conn, err := net.DialTimeout("tcp", addr.String(), 100*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Fatal("its backlog takes eight")
	return addr
}

// TestEndpointSilentAddress: a silent address leaves time for the next one.
func TestEndpointSilentAddress(t *testing.T) {
	t.Parallel()
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(proxy.Close)
	proxyAddr := netip.MustParseAddrPort(proxy.Listener.Addr().String())
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	got, err := queryEndpoint(ctx, &protocol.EndpointRequest{
		URL: "http://plain.test/", Proxy: "http://proxy.test:3128", Addrs: []netip.AddrPort{silentAddress(t), proxyAddr},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != 200 || got.LastAddr != proxyAddr {
		t.Errorf("%+v", got)
	}
}

// TestEndpointLateRefusal: a proxy that refuses while the request times out does not write
// to the result (for the race detector).
func TestEndpointLateRefusal(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	ended := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		defer close(ended)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.Read(make([]byte, 1))
		cancel()
		_, _ = io.WriteString(conn, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn)
	}()
	got, err := queryEndpoint(ctx, &protocol.EndpointRequest{
		URL: "https://secure.test/", Proxy: "http://proxy.test:3128",
		Addrs: []netip.AddrPort{netip.MustParseAddrPort(ln.Addr().String())},
	})
	if err != nil {
		t.Fatal(err)
	}
	<-ended
	if got.Status != 0 {
		t.Errorf("%+v", got)
	}
}
