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
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
)

// answering is a server that reads a request and then does what f does.
func answering(t *testing.T, f func(*net.TCPConn, []byte)) netip.AddrPort {
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

func says(text string) func(*net.TCPConn, []byte) {
	return func(conn *net.TCPConn, _ []byte) { _, _ = io.WriteString(conn, text) }
}

// TestFetch: what an answer holds, and the ways in which there is none told
// apart. The child is as bare as it is in the field.
func TestFetch(t *testing.T) {
	c := client(t)
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
		want prober.Fetch
	}{
		{
			"an answer",
			answering(t, says("HTTP/1.1 200 OK\r\nServer: a\u202eb\r\nVia: 1.1 x\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nkey")), patience,
			prober.Fetch{Status: 200, Server: "a b", Via: "1.1 x", ContentType: "text/plain", Body: []byte("key"), Length: 3},
		},
		{
			"a redirect", answering(t, says("HTTP/1.1 302 Found\r\nLocation: https://x/\r\nContent-Length: 0\r\n\r\n")), patience,
			prober.Fetch{Status: 302, Location: "https://x/"},
		},
		{"nobody listens", refused, patience, prober.Fetch{Cause: "refused"}},
		{"closed", answering(t, func(*net.TCPConn, []byte) {}), patience, prober.Fetch{Cause: "closed-without-answer"}},
		{"reset", answering(t, func(conn *net.TCPConn, _ []byte) { _ = conn.SetLinger(0) }), patience, prober.Fetch{Cause: "reset"}},
		{"silent", answering(t, func(conn *net.TCPConn, _ []byte) { _, _ = conn.Read(make([]byte, 1)) }), time.Second, prober.Fetch{Cause: "timeout-answer"}},
		{"not HTTP", answering(t, says("SSH-2.0-x\r\n")), patience, prober.Fetch{Cause: "malformed-answer"}},
		{"a head without an end", answering(t, says("HTTP/1.1 200 OK\r\n"+strings.Repeat("X: y\r\n", 20000))), patience, prober.Fetch{Cause: "malformed-answer"}},
		{
			"cut off", answering(t, says("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nkey")), patience,
			prober.Fetch{Status: 200, Body: []byte("key"), Length: 3, Cause: "answer-truncated"},
		},
		{
			"too large", answering(t, says("HTTP/1.1 200 OK\r\n\r\n"+strings.Repeat("x", 80000))), patience,
			prober.Fetch{Status: 200, Body: bytes.Repeat([]byte("x"), prober.MaxBody), Length: prober.MaxLength, Cause: "answer-too-large"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, err := c.Ask(within(t, tt.wait), prober.Question{Fetch: &prober.FetchQuestion{
				Addr: tt.addr, Host: "api.example.com", Path: "/x", Agent: "test", Connect: patience,
			}})
			if err != nil {
				t.Fatal(err)
			}
			got := *a.Fetch
			if got.Total <= 0 || (got.Cause != "refused" && got.Connected <= 0) || (got.Status != 0 && got.FirstByte < got.Connected) {
				t.Errorf("times: %+v", got)
			}
			if (got.Cause == "") != got.Why.IsZero() {
				t.Errorf("cause %q, why %v", got.Cause, got.Why)
			}
			got.Connected, got.FirstByte, got.Total, got.Why, got.Context = 0, 0, 0, cause.Why{}, cause.Context{}
			if diff := cmp.Diff(tt.want, got, cmp.Comparer(bytes.Equal), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestFetchAsksAsAValidator: the request as it goes out.
func TestFetchAsksAsAValidator(t *testing.T) {
	c := client(t)
	addr := answering(t, func(conn *net.TCPConn, request []byte) {
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\n\r\n%s", request)
	})
	a, err := c.Ask(within(t, patience), prober.Question{Fetch: &prober.FetchQuestion{Addr: addr, Host: "api.example.com", Path: "/x", Agent: "test", Connect: patience}})
	if err != nil {
		t.Fatal(err)
	}
	const want = "GET /x HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: test\r\nAccept: */*\r\nConnection: close\r\n\r\n"
	if diff := cmp.Diff(want, string(a.Fetch.Body)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLookup: addresses, none, a failure and no answer. Its own server stands in for a real
// one, which cannot be made to fail and to keep silent on demand.
func TestLookup(t *testing.T) {
	c := client(t)
	server := dns(t)
	ask := func(name string, ipv6 bool) (*prober.Lookup, error) {
		a, err := c.Ask(within(t, 3*time.Second), prober.Question{Lookup: &prober.LookupQuestion{Server: server, Name: name, IPv6: ipv6}})
		return a.Lookup, err
	}
	for _, tt := range []struct {
		name string
		ipv6 bool
		want prober.Lookup
	}{
		{"here.test", false, prober.Lookup{Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.5")}}},
		{"here.test", true, prober.Lookup{Addresses: []netip.Addr{netip.MustParseAddr("2001:db8::5")}}},
		{"empty.test", false, prober.Lookup{}},
		{"absent.test", true, prober.Lookup{}},
		{"failing.test", false, prober.Lookup{Failure: prober.ServerFails}},
		{"silent.test", false, prober.Lookup{Failure: prober.ServerSilent}},
	} {
		got, err := ask(tt.name, tt.ipv6)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if diff := cmp.Diff(tt.want, *got, cmpopts.EquateEmpty(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// dns answers for a few names.
func dns(t *testing.T) netip.AddrPort {
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
			if answer := zone(packet[:n]); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	return netip.MustParseAddrPort(conn.LocalAddr().String())
}

func zone(packet []byte) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(packet); err != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Response, m.Additionals = true, nil
	head := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1}
	switch name := q.Name.String(); {
	case name == "here.test." && q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{Header: head, Body: &dnsmessage.AResource{A: [4]byte{192, 0, 2, 5}}}}
	case name == "here.test.":
		m.Answers = []dnsmessage.Resource{{Header: head, Body: &dnsmessage.AAAAResource{AAAA: netip.MustParseAddr("2001:db8::5").As16()}}}
	case name == "empty.test.":
	case name == "absent.test.":
		m.RCode = dnsmessage.RCodeNameError
	case name == "failing.test.":
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
