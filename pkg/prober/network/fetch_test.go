// SPDX-License-Identifier: Apache-2.0

package network_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// startServer starts a server that reads a request and then calls f.
func startServer(t *testing.T, f func(*net.TCPConn, []byte)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				request := make([]byte, 4096)
				n, _ := conn.Read(request)
				f(conn.(*net.TCPConn), request[:n])
			}()
		}
	}()
	return netip.MustParseAddrPort(l.Addr().String())
}

func replyWith(text string) func(*net.TCPConn, []byte) {
	return func(conn *net.TCPConn, _ []byte) { _, _ = io.WriteString(conn, text) }
}

// TestFetch compares the results for answers, and for the reasons without an answer. The
// child has neither capabilities nor forbidden system calls.
func TestFetch(t *testing.T) {
	c := startClient(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = free.Close()
	refused := netip.MustParseAddrPort(free.Addr().String())
	tests := []struct {
		name string
		addr netip.AddrPort
		wait time.Duration
		want protocol.FetchResult
	}{
		{
			"an answer",
			startServer(t,
				replyWith("HTTP/1.1 200 OK\r\nServer: a\u202eb\r\nVia: 1.1 x\r\nContent-Type: text/plain\r\nContent-Length: "+
					"3\r\n\r\nkey")), testTimeout,
			protocol.FetchResult{
				Status: 200, Server: "a b", Via: "1.1 x", ContentType: "text/plain", Body: []byte("key"),
				Length: 3,
			},
		},
		{
			"a redirect", startServer(t, replyWith("HTTP/1.1 302 Found\r\nLocation: https://x/\r\nContent-Length: 0\r\n\r\n")),
			testTimeout,
			protocol.FetchResult{Status: 302, Location: "https://x/"},
		},
		{"nobody listens", refused, testTimeout, protocol.FetchResult{Cause: "ingress-refused"}},
		{
			"closed", startServer(t, func(*net.TCPConn, []byte) {}), testTimeout,
			protocol.FetchResult{Cause: "ingress-closed-connection"},
		},
		{
			"reset", startServer(t, func(conn *net.TCPConn, _ []byte) { _ = conn.SetLinger(0) }), testTimeout,
			protocol.FetchResult{Cause: "ingress-reset-connection"},
		},
		{
			"silent", startServer(t, func(conn *net.TCPConn, _ []byte) { _, _ = conn.Read(make([]byte, 1)) }), time.Second,
			protocol.FetchResult{Cause: "ingress-no-response"},
		},
		{
			"not HTTP", startServer(t, replyWith("SSH-2.0-x\r\n")), testTimeout,
			protocol.FetchResult{Cause: "response-malformed"},
		},
		{
			"a head without an end", startServer(t, replyWith("HTTP/1.1 200 OK\r\n"+strings.Repeat("X: y\r\n", 20000))),
			testTimeout,
			protocol.FetchResult{Cause: "response-malformed"},
		},
		{
			"cut off", startServer(t, replyWith("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nkey")), testTimeout,
			protocol.FetchResult{Status: 200, Body: []byte("key"), Length: 3, Cause: "response-truncated"},
		},
		{
			"too large", startServer(t, replyWith("HTTP/1.1 200 OK\r\n\r\n"+strings.Repeat("x", 80000))), testTimeout,
			protocol.FetchResult{
				Status: 200, Body: bytes.Repeat([]byte("x"), protocol.MaxBody), Length: protocol.MaxLength,
				Cause: "response-too-large",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, err := c.Query(withTimeout(t, tt.wait), protocol.Request{Fetch: &protocol.FetchRequest{
				Addr: tt.addr, Host: "api.example.com", Path: "/x", UserAgent: "test", ConnectTimeout: testTimeout,
			}})
			if err != nil {
				t.Fatal(err)
			}
			got := *a.Fetch
			if got.Total <= 0 || (got.Cause != "ingress-refused" && got.Connected <= 0) ||
				(got.Status != 0 && got.FirstByte < got.Connected) {
				t.Errorf("times: %+v", got)
			}
			if (got.Cause == "") != got.Details.IsZero() {
				t.Errorf("cause %q, why %v", got.Cause, got.Details)
			}
			got.Connected, got.FirstByte, got.Total, got.Details, got.Context = 0, 0, 0, cause.Details{}, cause.Context{}
			if diff := cmp.Diff(tt.want, got, cmp.Comparer(bytes.Equal),
				cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestFetchSendsAValidatorsRequest compares the request that is sent.
func TestFetchSendsAValidatorsRequest(t *testing.T) {
	c := startClient(t)
	addr := startServer(t, func(conn *net.TCPConn, request []byte) {
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\n\r\n%s", request)
	})
	a, err := c.Query(withTimeout(t, testTimeout),
		protocol.Request{Fetch: &protocol.FetchRequest{
			Addr: addr, Host: "api.example.com", Path: "/x", UserAgent: "test",
			ConnectTimeout: testTimeout,
		}})
	if err != nil {
		t.Fatal(err)
	}
	const want = "GET /x HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: test\r\nAccept: */*\r\nConnection: close\r\n\r\n"
	if diff := cmp.Diff(want, string(a.Fetch.Body)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLookup: addresses, no address, an error and no answer. A real DNS server does not
// fail or keep silent on demand.
func TestLookup(t *testing.T) {
	c := startClient(t)
	server := startDNSServer(t)
	lookup := func(name string) (*protocol.LookupResult, error) {
		a, err := c.Query(withTimeout(t, 3*time.Second), protocol.Request{Lookup: &protocol.LookupRequest{
			Server: server,
			Name:   name,
		}})
		return a.Lookup, err
	}
	for _, tt := range []struct {
		name string
		want [2]protocol.Record
	}{
		{"here.test", [2]protocol.Record{
			{Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.5")}},
			{Addresses: []netip.Addr{netip.MustParseAddr("2001:db8::5")}},
		}},
		{"empty.test", [2]protocol.Record{}},
		{"absent.test", [2]protocol.Record{}},
		{"failing.test", [2]protocol.Record{{Failure: protocol.ServerError}, {Failure: protocol.ServerError}}},
		{"bogus.test", [2]protocol.Record{{Failure: protocol.ServerBogus}, {Failure: protocol.ServerBogus}}},
		{"silent.test", [2]protocol.Record{{Failure: protocol.ServerSilent}, {Failure: protocol.ServerSilent}}},
		{"half.test", [2]protocol.Record{
			{Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.5")}},
			{Failure: protocol.ServerSilent},
		}},
	} {
		got, err := lookup(tt.name)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got.Records, cmpopts.EquateEmpty(),
			cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// startDNSServer answers for a few names.
func startDNSServer(t *testing.T) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		packet := make([]byte, 1024)
		for {
			n, from, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			if answer := dnsReply(packet[:n]); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	return netip.MustParseAddrPort(conn.LocalAddr().String())
}

func dnsReply(packet []byte) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(packet); err != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Response, m.Additionals = true, nil
	head := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1}
	switch name := q.Name.String(); {
	case (name == "here.test." || name == "half.test.") && q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{Header: head, Body: &dnsmessage.AResource{A: [4]byte{192, 0, 2, 5}}}}
	case name == "here.test.":
		m.Answers = []dnsmessage.Resource{{
			Header: head,
			Body:   &dnsmessage.AAAAResource{AAAA: netip.MustParseAddr("2001:db8::5").As16()},
		}}
	case name == "empty.test.", name == "bogus.test." && m.CheckingDisabled:
	case name == "absent.test.":
		m.RCode = dnsmessage.RCodeNameError
	case name == "failing.test.", name == "bogus.test.":
		m.RCode = dnsmessage.RCodeServerFailure
	default:
		return nil
	}
	answer, err := m.Pack()
	if err != nil {
		return nil
	}
	return answer
}
