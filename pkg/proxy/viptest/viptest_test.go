// SPDX-License-Identifier: Apache-2.0

package viptest

import (
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

func TestMain(m *testing.M) { nstest.Main(m) }

const (
	vip4, vip6 = "192.0.2.5", "2001:db8::5"

	older = "HTTP/1.1 400 Bad Request\r\nDate: Fri, 27 Nov 2026 04:27:25 GMT\r\nContent-Type: text/plain; " +
		"charset=utf-8\r\nContent-Length: 45\r\n" +
		"Cache-Control: no-store\r\nConnection: close\r\n\r\n" + reqhead.OnlyChallenges
)

// withInstance returns the response of a release that has instances.
func withInstance(id string) string {
	return strings.Replace(older, "\r\nCache-Control", "\r\n"+reqhead.InstanceField+": "+id+"\r\nCache-Control", 1)
}

func TestParseResponse(t *testing.T) {
	t.Parallel()
	const id = "00c0ffee00c0ffee"
	for name, tt := range map[string]struct {
		text string
		id   uint64
		ok   bool
	}{
		"an older release":      {older, 0, true},
		"an instance":           {withInstance(id), 0xc0ffee00c0ffee, true},
		"no number":             {withInstance("0x00c0ffee00c0ff"), 0, false},
		"empty":                 {withInstance(""), 0, false},
		"a folded field":        {withInstance(id + "\r\n x"), 0, false},
		"a bare CR":             {withInstance(id + "\r"), 0, false},
		"another body":          {older + "!", 0, false},
		"no body":               {strings.TrimSuffix(older, reqhead.OnlyChallenges), 0, false},
		"another status":        {strings.Replace(older, "400", "404", 1), 0, false},
		"a status with a space": {strings.Replace(older, "Request\r", "Request \r", 1), 0, false},
		"nothing":               {"", 0, false},
		"too long": {strings.Replace(older, "\r\nDate", "\r\nX: "+strings.Repeat("x", maxResponse)+"\r\nDate",
			1), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, ok := parseResponse([]byte(tt.text)); got != tt.id || ok != tt.ok {
				t.Errorf("%x, %v", got, ok)
			}
		})
	}
}

// FuzzParseResponse: an accepted response has the status and the body of the service.
func FuzzParseResponse(f *testing.F) {
	for _, text := range []string{
		older, withInstance("0123456789abcdef"), withInstance("g"), "HTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 400 Bad Request\r\n\r\n" + reqhead.OnlyChallenges,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		id, ok := parseResponse(text)
		switch {
		case !ok && id != 0:
			t.Errorf("a rejected response has the ID %x", id)
		case ok && (!strings.HasPrefix(string(text), "HTTP/1.1 400 ") || !strings.HasSuffix(string(text), "\r\n\r\n"+
			reqhead.OnlyChallenges) || len(text) > maxResponse):
			t.Errorf("accepted: %q", text)
		}
	})
}

// holder is another network namespace, on the same network.
type holder struct{ *nstest.Netns }

func addHolder(t *testing.T) holder {
	t.Helper()
	nstest.Require(t)
	h := holder{nstest.NewNetns(t)}
	nstest.Run(t, "ip", "link", "add", "lan0", "type", "veth", "peer", "name", "lan0", "netns", h.Path())
	set := func(host string) {
		nstest.Run(t, "ip", "link", "set", "lo", "up")
		nstest.Run(t, "ip", "link", "set", "lan0", "up")
		nstest.Run(t, "ip", "address", "add", "192.0.2."+host+"/24", "dev", "lan0")
		nstest.Run(t, "ip", "address", "add", "2001:db8::"+host+"/64", "dev", "lan0", "nodad")
	}
	set("11")
	h.In(func() { set("5") })
	return h
}

// respond answers each request with a text, until stop is called. Without a text it only
// reads, and for "reset" it resets the connection.
func (h holder) respond(t *testing.T, text string) (stop func()) {
	t.Helper()
	var listener net.Listener
	var err error
	h.In(func() { listener, err = net.Listen("tcp", ":80") })
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				n, _ := conn.Read(make([]byte, 1000))
				switch tcp, _ := conn.(*net.TCPConn); {
				case text == "reset":
					_ = tcp.SetLinger(0)
				case text == "":
					_, _ = io.Copy(io.Discard, conn)
				case n > 0:
					_, _ = io.WriteString(conn, text)
				}
			}()
		}
	}()
	return func() { _ = listener.Close() }
}

// shortTimeout is long enough for a second SYN.
const shortTimeout = 1500 * time.Millisecond

func expect(t *testing.T, want report.VIPTestResult, instance uint64, vips ...string) {
	t.Helper()
	if vips == nil {
		vips = []string{vip4, vip6}
	}
	addrs, all := []netip.Addr{}, []protocol.VIPTested{}
	for _, vip := range vips {
		addr := netip.MustParseAddr(vip)
		addrs, all = append(addrs, addr), append(all, protocol.VIPTested{VIP: addr, Result: want, Instance: instance})
	}
	if diff := cmp.Diff(all, testAll(t.Context(), addrs, shortTimeout),
		cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestResults: each way in which a request can end, on the kernel.
func TestResults(t *testing.T) {
	h := addHolder(t)
	for name, tt := range map[string]struct {
		text     string
		want     report.VIPTestResult
		instance uint64
	}{
		"the service":      {withInstance("00c0ffee00c0ffee"), report.VIPAnswered, 0xc0ffee00c0ffee},
		"an older release": {older, report.VIPAnswered, 0},
		"another program": {
			"HTTP/1.1 301 Moved Permanently\r\nLocation: https://x/\r\n\r\n",
			report.VIPOtherAnswer, 0,
		},
		"an endless one": {
			withInstance("00c0ffee00c0ffee") + strings.Repeat("x", 1<<20),
			report.VIPOtherAnswer, 0,
		},
		"a reset":                        {"reset", report.VIPReset, 0},
		"a program that does not answer": {"", report.VIPTimedOut, 0},
	} {
		t.Run(name, func(t *testing.T) {
			stop := h.respond(t, tt.text)
			defer stop()
			expect(t, tt.want, tt.instance)
		})
	}
	t.Run("nobody listens", func(t *testing.T) { expect(t, report.VIPRefused, 0) })
	t.Run("no host has the address", func(t *testing.T) {
		expect(t, report.VIPTimedOut, 0, "192.0.2.99", "2001:db8::99")
		for _, r := range Test(t.Context(), []netip.Addr{
			netip.MustParseAddr("192.0.2.98"),
			netip.MustParseAddr("2001:db8::98"),
		}) {
			if r.Result != report.VIPTimedOut {
				t.Errorf("%+v", r)
			}
		}
	})

	defer h.respond(t, withInstance("00c0ffee00c0ffee"))()
	const output, filter = "type filter hook output priority 0; ", "tcp dport 80 "
	for name, tt := range map[string]struct {
		here  bool
		chain string
		want  report.VIPTestResult
	}{
		"this host drops in output": {true, output + filter + "drop", report.VIPNotSent},
		"this host drops in postrouting": {
			true, "type filter hook postrouting priority 0; " + filter + "drop",
			report.VIPNotSent,
		},
		"this host rejects with ICMP":    {true, output + filter + "reject", report.VIPNotSent},
		"this host prohibits":            {true, output + filter + "reject with icmpx admin-prohibited", report.VIPNotSent},
		"this host rejects with a reset": {true, output + filter + "reject with tcp reset", report.VIPRefused},
		"this host drops the reply":      {true, "type filter hook input priority 0; tcp sport 80 drop", report.VIPTimedOut},
		"the holder drops": {
			false, "type filter hook input priority 0; " + filter + "drop",
			report.VIPTimedOut,
		},
		"the holder drops the reply": {false, output + "tcp sport 80 drop", report.VIPTimedOut},
		"the holder rejects": {false, "type filter hook input priority 0; " + filter +
			"reject with icmpx admin-prohibited", report.VIPRefused},
		"the holder rejects with a reset": {
			false, "type filter hook input priority 0; " + filter + "reject with tcp reset",
			report.VIPRefused,
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(f func()) { f() }
			if !tt.here {
				run = h.In
			}
			run(func() { nstest.RunWithInput(t, "table inet x { chain y { "+tt.chain+"; }; }", "nft", "-f", "-") })
			defer run(func() { nstest.Run(t, "nft", "delete table inet x") })
			expect(t, tt.want, 0)
		})
	}
	for _, kind := range []string{"unreachable", "blackhole", "prohibit"} {
		t.Run("the route is "+kind, func(t *testing.T) {
			for _, vip := range []string{vip4, vip6} {
				nstest.Run(t, "ip", "route", "add", kind, vip)
				defer nstest.Run(t, "ip", "route", "del", kind, vip)
			}
			expect(t, report.VIPNotSent, 0)
		})
	}
	expect(t, report.VIPAnswered, 0xc0ffee00c0ffee)
}
