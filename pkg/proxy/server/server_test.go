// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/server"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// wantRejection waits for one report and expects this rejection.
func wantRejection(t *testing.T, f *testServer, want report.Rejection) {
	t.Helper()
	challenges, rejections := f.rec.await(t, 1)
	if len(challenges) != 0 || len(rejections) != 1 || rejections[0] != want {
		t.Errorf("reported %v and %v, want the rejection %q", challenges, rejections, want)
	}
}

// waitFor waits for proceed, or for the end of a test that failed before.
func waitFor(t *testing.T, proceed <-chan struct{}) {
	t.Helper()
	select {
	case <-proceed:
	case <-t.Context().Done():
	}
}

// delayedIngress is an ingress that answers only after proceed is closed. requested gets
// a value for each request.
func delayedIngress(t *testing.T) (router netip.AddrPort, requested, proceed chan struct{}) {
	t.Helper()
	requested, proceed = make(chan struct{}, 8), make(chan struct{})
	return startIngress(t, func(tcp *net.TCPConn, r *bufio.Reader) {
		for readHead(r) != "" {
			requested <- struct{}{}
			waitFor(t, proceed)
			_, _ = io.WriteString(tcp, okResponse)
		}
	}), requested, proceed
}

func TestSilentClientIsClosed(t *testing.T) {
	s := testSettings()
	s.HeadTimeout = 50 * time.Millisecond
	f := startServer(t, s)
	if got := roundTrip(t, f.addr, ""); got != "" {
		t.Errorf("answered %q", got)
	}
	wantRejection(t, f, report.HeadTimeout)
}

func TestSlowHead(t *testing.T) {
	s := testSettings()
	s.HeadTimeout = 200 * time.Millisecond
	for name, feed := range map[string]func(tcp *net.TCPConn){
		"stops": func(tcp *net.TCPConn) { _, _ = io.WriteString(tcp, challengeRequest[:60]) },
		"drips": func(tcp *net.TCPConn) {
			// Each byte arrives in time; the whole head does not.
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			_, err := io.WriteString(tcp, "GET / HTTP/1.1\r\nX: ")
			for ; err == nil; <-tick.C {
				_, err = tcp.Write([]byte("x"))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := startServer(t, s)
			tcp := dial(t, f.addr)
			fed := make(chan struct{})
			go func() { defer close(fed); feed(tcp) }()
			response, err := bufio.NewReader(tcp).ReadString('\n')
			if err != nil || !strings.HasPrefix(response, "HTTP/1.1 408 ") {
				t.Errorf("answered %q, %v", response, err)
			}
			_ = tcp.Close()
			<-fed
			wantRejection(t, f, report.HeadTimeout)
		})
	}
}

func TestClientGone(t *testing.T) {
	for name, linger := range map[string]int{"closed at once": -1, "reset at once": 0} {
		for sent, text := range map[string]string{"nothing sent": "", "half a head sent": challengeRequest[:60]} {
			t.Run(name+", "+sent, func(t *testing.T) {
				f := startServer(t, testSettings())
				tcp := dial(t, f.addr)
				send(t, tcp, text)
				_ = tcp.SetLinger(linger)
				_ = tcp.Close()
				wantRejection(t, f, report.ClientGone)
			})
		}
	}
}

// TestRefusedClientKind: the kind of client is recorded only if the request could
// be parsed.
func TestRefusedClientKind(t *testing.T) {
	const agent = "\r\nUser-Agent: cert-manager-challenges/v1.18\r\n"
	s := testSettings()
	s.Hosts = []string{"api.example.com"}
	s.HeadBytes = 512
	requested := "GET " + "/.well-known/acme-challenge/" + "x HTTP/1.1\r\nHost: "
	for _, tt := range []struct {
		request string
		want    report.Rejection
	}{
		{"GET / HTTP/1.1\r\nHost: api.example.com" + agent + "\r\n", report.NotChallenge},
		{requested + "other.example.com" + agent + "\r\n", report.ForeignHost},
		{"POST " + "/.well-known/acme-challenge/" + "x HTTP/1.1\r\nHost: api.example.com" + agent + "\r\n", report.BadMethod},
		{requested + "api.example.com" + agent + "Content-Length: 7\r\n\r\n", report.BadRequest},
		{requested + "api.example.com" + agent + "Via: 1.1 http01-proxyd\r\n\r\n", report.Loop},
		{requested + "api.example.com" + agent + "Bad Field\r\n\r\n", report.BadRequest},
		{requested + "api.example.com" + agent + "X: " + strings.Repeat("x", 512), report.TooLarge},
		{requested + "api.example.com" + agent, report.ClientGone},
	} {
		t.Run(string(tt.want), func(t *testing.T) {
			f := startServer(t, s)
			tcp := dial(t, f.addr)
			send(t, tcp, tt.request)
			_ = tcp.CloseWrite()
			_ = readAll(t, tcp)
			wantRejection(t, f, tt.want)
			asker := report.OtherClient
			if tt.want.HeadParsed() && !strings.Contains(tt.request, "Bad Field") {
				asker = report.CertManager
			}
			if f.rec.clientKinds[0] != asker {
				t.Errorf("recorded the client kind %s, want %s", f.rec.clientKinds[0], asker)
			}
		})
	}
}

// TestResponseIsDeliveredBeforeBodyEnds runs clients that still send a body, which nobody
// reads. They must get the response, and no reset before it.
func TestResponseIsDeliveredBeforeBodyEnds(t *testing.T) {
	for name, test := range map[string]struct {
		head string
		want int
	}{
		"elsewhere":       {"POST /apis HTTP/1.1\r\nHost: a\r\nContent-Length: 131072\r\n\r\n", 400},
		"a challenge":     {"GET /.well-known/acme-challenge/x HTTP/1.1\r\nHost: a\r\nContent-Length: 131072\r\n\r\n", 413},
		"an endless head": {"GET / HTTP/1.1\r\nHost: a\r\nX: ", 431},
	} {
		t.Run(name, func(t *testing.T) {
			f := startServer(t, testSettings())
			tcp := dial(t, f.addr)
			send(t, tcp, test.head+strings.Repeat("x", 128<<10))
			if got := readAll(t, tcp); !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", test.want)) {
				t.Errorf("answered %q", got)
			}
		})
	}
}

// TestBytesAfterRequest sends a second request after the first was validated. It is
// neither served nor forwarded, and does not affect the first.
func TestBytesAfterRequest(t *testing.T) {
	requested, proceed := make(chan string, 2), make(chan struct{})
	router := startIngress(t, func(tcp *net.TCPConn, r *bufio.Reader) {
		for {
			request := readHead(r)
			if request == "" {
				return
			}
			requested <- request
			waitFor(t, proceed)
			_, _ = io.WriteString(tcp, okResponse)
		}
	})
	f := startServer(t, testSettings(), router)
	tcp := dial(t, f.addr)
	send(t, tcp, challengeRequest)
	<-requested
	send(t, tcp, challengeRequest)
	close(proceed)
	if got := readAll(t, tcp); strings.Count(got, "HTTP/1.1 ") != 1 || !strings.HasSuffix(got, "token.key") {
		t.Errorf("answered %q", got)
	}
	if len(requested) > 0 {
		t.Errorf("forwarded %q", <-requested)
	}
}

func TestRecordedChallenge(t *testing.T) {
	router := startIngress(t, answerAll)
	f := startServer(t, testSettings(), router)
	tcp := dial(t, f.addr)
	send(t, tcp, strings.Replace(strings.Replace(challengeRequest, "api.example.com", "API.example.com.", 1), "\r\n\r\n",
		"\r\nUser-agent: cert-manager-challenges/v1.21.2 (linux/amd64) cert-manager/abc\r\n\r\n", 1))
	readAll(t, tcp)
	got, _ := f.rec.await(t, 1)
	want := []report.Challenge{{
		VIP:         f.addr.Addr(),
		Client:      tcp.LocalAddr().(*net.TCPAddr).AddrPort(),
		Method:      "GET",
		Host:        "api.example.com",
		Token:       server.TokenHash("token-of-more-than-8"),
		TokenPrefix: "token-of",
		ClientKind:  report.CertManager,
		Status:      200,
		Upstream:    router,
	}}
	opts := cmp.Options{
		cmpopts.IgnoreFields(report.Challenge{}, "Time", "Duration"),
		cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{}),
	}
	if diff := cmp.Diff(want, got, opts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got[0].Time.IsZero() || got[0].Duration <= 0 {
		t.Errorf("time %v, duration %v", got[0].Time, got[0].Duration)
	}
}

// TestUpstreamErrors checks the response to the client and the record.
func TestUpstreamErrors(t *testing.T) {
	silent := func(_ *net.TCPConn, r *bufio.Reader) {
		readHead(r)
		_, _ = r.ReadByte()
	}
	once := func(response string) func(*net.TCPConn, *bufio.Reader) {
		return func(tcp *net.TCPConn, r *bufio.Reader) {
			if readHead(r) != "" {
				_, _ = io.WriteString(tcp, response)
			}
		}
	}
	for name, test := range map[string]struct {
		handler func(*net.TCPConn, *bufio.Reader)
		budget  time.Duration
		status  int
		body    string
		cause   string
	}{
		"refuses": {nil, testTimeout, 502, "upstream refused the connection", "ingress-refused"},
		"never answers": {
			silent, 200 * time.Millisecond, 504, "upstream did not respond in time",
			"ingress-no-response",
		},
		"closes": {
			once(""), testTimeout, 502, "upstream closed the connection without a response",
			"ingress-closed-connection",
		},
		"speaks SSH": {
			once("SSH-2.0-OpenSSH_9.6\r\n"), testTimeout, 502, "upstream sent a malformed response",
			"response-malformed",
		},
		"breaks off": {
			once("HTTP/1.1 200 OK\r\n"), testTimeout, 502, "upstream sent an incomplete response",
			"response-truncated",
		},
		"sends bad chunks": {
			once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), testTimeout, 502,
			"upstream sent a malformed response", "response-malformed",
		},
		"breaks off a body": {
			once("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ntoken"), testTimeout, 502,
			"upstream sent an incomplete response", "response-truncated",
		},
		"breaks off chunks": {
			once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ntoken\r\n"), testTimeout, 502,
			"upstream sent an incomplete response", "response-truncated",
		},
		"sends no body": {
			once("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"), testTimeout, 502,
			"upstream sent an incomplete response", "response-truncated",
		},
		"has no route": {
			once("HTTP/1.0 503 x\r\nContent-Type: text/html\r\n\r\n<html>"), testTimeout, 503, "<html>",
			"route-missing",
		},
		"redirects to https": {
			once(
				"HTTP/1.1 302 x\r\nLocation: " +
					"https://api.example.com/.well-known/acme-challenge/token-of-more-than-8\r\nContent-Length: 0\r\n\r\n"),
			testTimeout, 302, "", "route-redirects-https",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var router netip.AddrPort
			if test.handler != nil {
				router = startIngress(t, test.handler)
			} else {
				ln := listen(t)
				router = ln.Addr().(*net.TCPAddr).AddrPort()
				_ = ln.Close()
			}
			s := testSettings()
			s.Upstream.Timeout = test.budget
			f := startServer(t, s, router)
			got := roundTrip(t, f.addr, challengeRequest)
			top, body, _ := strings.Cut(got, "\r\n\r\n")
			if !strings.HasPrefix(top, fmt.Sprintf("HTTP/1.1 %d ", test.status)) || body != test.body {
				t.Errorf("answered %q", got)
			}
			recorded, _ := f.rec.await(t, 1)
			if c := recorded[0]; c.Status != test.status || c.Cause != test.cause || c.Upstream != router ||
				!strings.Contains(c.Detail, router.String()) {
				t.Errorf("recorded %+v", c)
			}
		})
	}
}

// TestTokenPrefix: a record never contains a whole token.
func TestTokenPrefix(t *testing.T) {
	f := startServer(t, testSettings(), startIngress(t, answerAll))
	for i, test := range []struct{ token, want string }{
		{"", ""},
		{"a", ""},
		{"ab", "a"},
		{"abcde", "ab"},
		{"abcdefgh", "abcd"},
		{"abcdefghijklmno", "abcdefg"},
		{"abcdefghijklmnop", "abcdefgh"},
		{"abcdefghijklmnopqrstuvwxyz", "abcdefgh"},
		{"ab?cdefghijklmnopqrstuvwxyz", "a"},
	} {
		roundTrip(t, f.addr, strings.Replace(challengeRequest, "token-of-more-than-8", test.token, 1))
		recorded, _ := f.rec.await(t, i+1)
		if got := recorded[i].TokenPrefix; got != test.want {
			t.Errorf("of %q: %q, want %q", test.token, got, test.want)
		}
	}
}

// TestLoop has an ingress that is the server itself. The request comes back once
// and no further, and both ends of the loop are recorded.
func TestLoop(t *testing.T) {
	f := startServer(t, testSettings())
	f.upstream.Update(upstream.Settings{Upstream: ingress.Upstream{
		Addresses: []netip.Addr{f.addr.Addr()},
		Port:      f.addr.Port(), ConnectTimeout: testTimeout,
	}})
	got := roundTrip(t, f.addr, challengeRequest)
	if !strings.HasPrefix(got, "HTTP/1.1 502 ") ||
		!strings.HasSuffix(got, "\r\n\r\nthe route of this host name leads back to this proxy") ||
		!strings.Contains(got, "\r\nProxy-Status: http01-proxyd; error=proxy_loop_detected\r\n") {
		t.Errorf("answered %q", got)
	}
	challenges, rejections := f.rec.await(t, 2)
	if len(challenges) != 1 || len(rejections) != 1 || rejections[0] != report.Loop {
		t.Fatalf("recorded %+v and %v", challenges, rejections)
	}
	if c := challenges[0]; c.Status != 502 || c.Cause != "route-loop" || c.Upstream != f.addr ||
		!strings.Contains(c.Detail, "to cert-manager's solver") {
		t.Errorf("recorded %+v", c)
	}
}

// blockingUpstream does not answer before proceed is closed.
type blockingUpstream struct{ requested, proceed chan struct{} }

func (blockingUpstream) Direct(netip.Addr) (d upstream.Direct, ok bool) { return d, false }

func (w blockingUpstream) Exchange(
	context.Context, *upstream.Request, *upstream.Relay,
) (netip.AddrPort, *upstream.Error) {
	w.requested <- struct{}{}
	<-w.proceed
	return netip.AddrPort{}, &upstream.Error{Cause: findings.ExchangeStopped, ClientStatus: 502}
}

// recordingUpstream keeps copies of its requests.
type recordingUpstream chan upstream.Request

func (recordingUpstream) Direct(netip.Addr) (d upstream.Direct, ok bool) { return d, false }

func (n recordingUpstream) Exchange(
	_ context.Context, r *upstream.Request, _ *upstream.Relay,
) (netip.AddrPort, *upstream.Error) {
	requested := *r
	requested.Head, requested.Target = slices.Clone(r.Head), slices.Clone(r.Target)
	n <- requested
	return netip.AddrPort{}, &upstream.Error{Cause: findings.ExchangeStopped, ClientStatus: 502}
}

// TestUpstreamRequest checks the fields of the request besides the head.
func TestUpstreamRequest(t *testing.T) {
	const path = "/.well-known/acme-challenge/token?a=b"
	for name, test := range map[string]struct {
		request, host string
		toHead        bool
	}{
		"GET":                {"GET " + path + " HTTP/1.1\r\nHost: api.example.com\r\n\r\n", "api.example.com", false},
		"HEAD":               {"HEAD " + path + " HTTP/1.1\r\nHost: api.example.com\r\n\r\n", "api.example.com", true},
		"in canonical form":  {"GET " + path + " HTTP/1.1\r\nHost: API.Example.COM.:80\r\n\r\n", "api.example.com", false},
		"another port":       {"GET " + path + " HTTP/1.1\r\nHost: api.example.com:8080\r\n\r\n", "api.example.com", false},
		"an address of IPv6": {"GET " + path + " HTTP/1.1\r\nHost: [2001:DB8:0::5]:8080\r\n\r\n", "[2001:db8::5]", false},
		"no host":            {"GET " + path + " HTTP/1.0\r\n\r\n", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			requested := make(recordingUpstream, 1)
			g := newServer(t, testSettings(), requested, newRecorder(), func() {})
			ln := newListener(t)
			serveUntilStop(t, g, ln)
			tcp := dial(t, ln.addr)
			send(t, tcp, test.request)
			got := <-requested
			method := "GET "
			if test.toHead {
				method = "HEAD "
			}
			if got.Host != test.host || string(got.Target) != path || got.IsHead != test.toHead ||
				!strings.HasPrefix(string(got.Head), method+path+" HTTP/1.1\r\nHost: ") || !strings.HasSuffix(string(got.Head),
				"\r\n\r\n") ||
				got.VIP != netip.MustParseAddrPort("127.0.0.1:80") || got.Client.String() != tcp.LocalAddr().String() ||
				time.Until(got.Deadline) <= 0 {
				t.Errorf("the request is %+v", got)
			}
		})
	}
}

// TestWaitingMemory runs many clients that wait for a response to the longest heads that are
// forwarded whole.
func TestWaitingMemory(t *testing.T) {
	// a forwarded head of 7 KiB, the stack and the sockets; not the received head
	const clients, limit = 256, 16<<10 + raceOverhead
	up := blockingUpstream{make(chan struct{}, clients), make(chan struct{})}
	g := newServer(t, testSettings(), up, newRecorder(), func() {})
	ln := newListener(t)
	stop := serveUntilStop(t, g, ln)
	addr := ln.addr
	request := "GET /.well-known/acme-challenge/token HTTP/1.1\r\nHost: a\r\nUser-Agent: " + strings.Repeat("x", 7<<10) +
		"\r\n\r\n"
	ask := func() {
		send(t, dial(t, addr), request)
		<-up.requested
	}
	ask() // allocates what stays allocated
	before := memoryInUse()
	for range clients {
		ask()
	}
	if each := (memoryInUse() - before) / clients; each > limit {
		t.Errorf("each connection holds %d bytes, want %d at most", each, limit)
	}
	close(up.proceed)
	stop()
	wantDrained(t, g)
}

// memoryInUse returns the memory in use without garbage, including stacks.
func memoryInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// TestSlowReader: a client that reads late gets the whole response. One that never does is
// recorded without a status.
func TestSlowReader(t *testing.T) {
	body := strings.Repeat("x", 64<<10)
	for name, reads := range map[string]bool{"late": true, "never": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answered := make(chan struct{})
			router := startIngress(t, func(tcp *net.TCPConn, r *bufio.Reader) {
				if readHead(r) != "" {
					_, _ = io.WriteString(tcp, "HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n"+body)
					close(answered)
				}
				_, _ = r.ReadByte()
			})
			s, want := testSettings(), 200
			if !reads {
				s.Upstream.Timeout, want = 100*time.Millisecond, 0
			}
			f := startWithSmallBuffers(t, s, router)
			conn, err := (&net.Dialer{Control: setSmallBuffers}).DialContext(t.Context(), "tcp", f.addr.String())
			if err != nil {
				t.Fatal(err)
			}
			tcp := conn.(*net.TCPConn)
			defer tcp.Close()
			send(t, tcp, challengeRequest)
			<-answered
			if reads {
				if got := readAll(t, tcp); !strings.HasSuffix(got, "\r\n\r\n"+body) {
					t.Errorf("%d bytes of the response", len(got))
				}
			}
			recorded, _ := f.rec.await(t, 1)
			if c := recorded[0]; c.Status != want || c.Cause != "" {
				t.Errorf("recorded %+v", c)
			}
		})
	}
}

// TestClientResetsWhileWaiting has a client that disconnects before the response.
func TestClientResetsWhileWaiting(t *testing.T) {
	router, requested, proceed := delayedIngress(t)
	f := startServer(t, testSettings(), router)
	tcp := dial(t, f.addr)
	send(t, tcp, challengeRequest)
	<-requested
	_ = tcp.SetLinger(0)
	_ = tcp.Close()
	close(proceed)
	recorded, _ := f.rec.await(t, 1)
	if c := recorded[0]; c.Status != 0 || c.Cause != "" || c.Upstream != router {
		t.Errorf("recorded %+v", c)
	}
}

// TestBacklog has a waiting room with one place, taken by a client without a head. The next
// client waits for a place, which an end or an update provides. The end of Serve
// does not cost it its response.
func TestBacklog(t *testing.T) {
	for name, free := range map[string]func(f *testServer, holder *net.TCPConn){
		"a connection ends":   func(_ *testServer, holder *net.TCPConn) { _ = holder.CloseWrite() },
		"the limit is raised": func(f *testServer, _ *net.TCPConn) { f.Update(new(testSettings())) },
		"Serve ends":          func(f *testServer, _ *net.TCPConn) { f.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			s := testSettings()
			s.MaxConnections = 1
			f := startServer(t, s)
			f.StopClock()
			holder := openHalfSent(t, f, "127.0.0.2")
			waiting := dial(t, f.addr)
			send(t, waiting, "GET")
			nstest.Await(t, "the other is accepted", func() bool { return f.HasWaiting() })
			if n := f.InFlight(); n != 1 {
				t.Errorf("%d connections in flight", n)
			}
			free(f, holder)
			send(t, waiting, " / HTTP/1.1\r\nHost: a\r\n\r\n")
			if got := readAll(t, waiting); !strings.HasSuffix(got, reqhead.OnlyChallenges) {
				t.Errorf("answered %q", got)
			}
			_ = holder.CloseWrite()
			if got := readAll(t, holder); !strings.HasSuffix(got, "incomplete request head") {
				t.Errorf("answered %q", got)
			}
		})
	}
}

// heartbeats returns a heartbeat for an event loop, and a function that waits for n of
// them.
func heartbeats(t *testing.T) (beat func(), await func(n int)) {
	t.Helper()
	beats := make(chan struct{}, 1)
	beat = func() {
		select {
		case beats <- struct{}{}:
		default:
		}
	}
	return beat, func(n int) {
		t.Helper()
		for range n {
			select {
			case <-beats:
			case <-time.After(testTimeout):
				t.Fatal("no beat")
			}
		}
	}
}

type unusedUpstream struct{}

func (unusedUpstream) Direct(netip.Addr) (d upstream.Direct, ok bool) { return d, false }

func (unusedUpstream) Exchange(context.Context, *upstream.Request, *upstream.Relay) (netip.AddrPort, *upstream.Error) {
	panic("nothing may be forwarded")
}

// TestDescriptorLimit takes away the process's descriptors while a connection waits
// to be accepted. The loop neither ends nor spins, and still sends heartbeats.
func TestDescriptorLimit(t *testing.T) {
	records := newRecorder()
	beat, await := heartbeats(t)
	g := newServer(t, testSettings(), unusedUpstream{}, records, beat)
	ln := newListener(t)
	tcp := dial(t, ln.addr)
	send(t, tcp, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")

	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	fd := ln.duplicate(t)
	free, err := syscall.Dup(0) // the lowest free number
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Close(free)
	none := before
	none.Cur = uint64(free)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	restore := sync.OnceFunc(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	})
	defer restore()

	if err := g.Listen(fd); err != nil {
		t.Fatal(err)
	}
	await(3)
	failures := records.acceptFailures()
	// Attempts are 250 ms apart, and heartbeats seconds at most. A loop that spins counts
	// thousands.
	if n := len(failures); n == 0 || n > 50 || !errors.Is(failures[n-1], syscall.EMFILE) {
		t.Errorf("%d failures: %v", n, failures[:min(n, 1)])
	}
	restore()
	if got := readAll(t, tcp); !strings.HasSuffix(got, reqhead.OnlyChallenges) {
		t.Errorf("answered %q", got)
	}
	g.StopListening(fd)
}

// TestHeartbeats shows that the loop sends heartbeats while nothing is to be accepted and while
// the waiting room is full.
func TestHeartbeats(t *testing.T) {
	for name, full := range map[string]bool{"idle": false, "full": true} {
		t.Run(name, func(t *testing.T) {
			s := testSettings()
			s.MaxConnections = 1
			up := blockingUpstream{make(chan struct{}, 1), make(chan struct{})}
			beat, await := heartbeats(t)
			g := newServer(t, s, up, newRecorder(), beat)
			ln := newListener(t)
			serveUntilStop(t, g, ln)
			if full {
				g.StopClock()
				send(t, dial(t, ln.addr), "GET")
				nstest.Await(t, "the first one is accepted", func() bool { return g.InFlight() == 1 })
				send(t, dial(t, ln.addr), "GET")
				nstest.Await(t, "the next one waits", g.HasWaiting)
			}
			await(2)
			close(up.proceed)
		})
	}
}

func wantDrained(t testing.TB, g *server.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	if cut := g.Drain(ctx); cut != 0 {
		t.Errorf("%d connections cut", cut)
	}
}

// TestListenAfterDrain: a port that is opened again after Drain gives its clients all their
// time for the head.
func TestListenAfterDrain(t *testing.T) {
	g := newServer(t, testSettings(), unusedUpstream{}, newRecorder(), func() {})
	ln := newListener(t)
	stop := serveUntilStop(t, g, ln)
	silent := dial(t, ln.addr)
	nstest.Await(t, "the first one is accepted", func() bool { return g.InFlight() == 1 })
	stop()
	wantDrained(t, g) // when the time of the silent one is over
	if got := readAll(t, silent); got != "" {
		t.Errorf("answered %q", got)
	}
	serveUntilStop(t, g, ln)
	tcp := dial(t, ln.addr)
	nstest.Await(t, "its head is awaited", func() bool { return g.InFlight() == 1 })
	send(t, tcp, "GET / HTTP/1.0\r\n\r\n")
	if got := readAll(t, tcp); !strings.HasSuffix(got, reqhead.OnlyChallenges) {
		t.Errorf("answered %q", got)
	}
}

// TestDrainWaits shows that Drain waits for a challenge in progress.
func TestDrainWaits(t *testing.T) {
	router, requested, proceed := delayedIngress(t)
	f := startServer(t, testSettings(), router)
	tcp := dial(t, f.addr)
	send(t, tcp, challengeRequest)
	<-requested
	f.stop()
	ended := make(chan int, 1)
	go func() { ended <- f.Drain(t.Context()) }()
	select {
	case cut := <-ended:
		t.Fatalf("Drain returned %d before the challenge was over", cut)
	default:
	}
	close(proceed)
	if got := readAll(t, tcp); !strings.HasSuffix(got, "token.key") {
		t.Errorf("answered %q", got)
	}
	if cut := <-ended; cut != 0 {
		t.Errorf("%d connections cut", cut)
	}
}

// TestUpdateHosts shows that settings apply to connections that are accepted
// afterwards.
func TestUpdateHosts(t *testing.T) {
	router := startIngress(t, answerAll)
	f := startServer(t, testSettings(), router)
	s := testSettings()
	for _, step := range []struct {
		hosts []string
		want  string
	}{
		{nil, "token.key"},
		{[]string{"other.example.com"}, reqhead.OnlyChallenges},
		{[]string{"other.example.com", "api.example.com"}, "token.key"},
	} {
		s.Hosts = step.hosts
		f.Update(new(s))
		if got := roundTrip(t, f.addr, challengeRequest); !strings.HasSuffix(got, step.want) {
			t.Errorf("hosts %v: answered %q", step.hosts, got)
		}
	}
	if _, rejections := f.rec.await(t, 3); len(rejections) != 1 || rejections[0] != report.ForeignHost {
		t.Errorf("rejections %v", rejections)
	}
}

// BenchmarkChallenge is one challenge over loopback, including client and ingress:
// a new connection to the server and an idle one to the ingress.
func BenchmarkChallenge(b *testing.B) {
	router := startIngress(b, answerAll)
	f := startServer(b, testSettings(), router)
	to := net.TCPAddrFromAddrPort(f.addr)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		buf := make([]byte, 4096)
		for pb.Next() {
			tcp, err := net.DialTCP("tcp", nil, to)
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.WriteString(tcp, challengeRequest)
			n, err := io.ReadFull(tcp, buf)
			if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.HasSuffix(string(buf[:n]), "token.key") {
				b.Errorf("answered %q, %v", buf[:n], err)
			}
			_ = tcp.Close()
		}
	})
}

// TestHeadBytes has heads of exactly the limit, and of one byte more. The limits
// are below, at and above the first read buffer.
func TestHeadBytes(t *testing.T) {
	for _, limit := range []int{200, 1024, 3000, 8192} {
		t.Run(strconv.Itoa(limit), func(t *testing.T) {
			s := testSettings()
			s.HeadBytes = limit
			f := startServer(t, s, startIngress(t, answerAll))
			begin := strings.TrimSuffix(challengeRequest, "\r\n") + "X: "
			for over, want := range []string{"HTTP/1.1 200 ", "HTTP/1.1 431 "} {
				request := begin + strings.Repeat("x", limit+over-len(begin)-4) + "\r\n\r\n"
				if got := roundTrip(t, f.addr, request); !strings.HasPrefix(got, want) {
					t.Errorf("%d bytes: answered %q", len(request), got)
				}
			}
		})
	}
}

// TestKeptConnectionWithoutPath: the packets of a kept connection do not arrive any more, as
// when the VIP left that was its source address. The request is sent again on a new one.
func TestKeptConnectionWithoutPath(t *testing.T) {
	nstest.Require(t)
	ports := make(chan uint16, 2)
	router := startIngress(t, func(tcp *net.TCPConn, r *bufio.Reader) {
		ports <- tcp.RemoteAddr().(*net.TCPAddr).AddrPort().Port()
		answerAll(tcp, r)
	})
	f := startServerWithOneLoop(t, testSettings(), router)
	get := func() {
		t.Helper()
		if got := roundTrip(t, f.addr, challengeRequest); !strings.HasSuffix(got, "token.key") {
			t.Fatalf("answered %q", got)
		}
	}
	get()
	for _, statement := range nstest.PathEnds() {
		get()
		if n := len(ports); n != 1 {
			t.Fatalf("%d new connections before %q, want 1: the second request uses it too", n, statement)
		}
		nstest.EndPath(t, <-ports, statement)
		get()
	}
}

// TestUnrequestedResponse: bytes that no request waits for are noticed before a kept connection
// is used, even if their event is fetched after the request's.
func TestUnrequestedResponse(t *testing.T) {
	const batch = 64 // events that a loop fetches at once
	for name, test := range map[string]struct {
		others  int  // events between the request's and the bytes'
		arrives bool // the bytes arrive when the event of the request was fetched
		idle    bool // the bytes arrive before the request
	}{
		"arrives before":       {0, false, true},
		"arrives meanwhile":    {0, true, false},
		"in the next batch":    {batch + batch/2, false, false},
		"after the next batch": {2*batch + batch/2, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			connected := make(chan *net.TCPConn, 2)
			router := startIngress(t, func(tcp *net.TCPConn, r *bufio.Reader) {
				connected <- tcp
				answerAll(tcp, r)
			})
			f := startServerWithOneLoop(t, testSettings(), router)
			if got := roundTrip(t, f.addr, challengeRequest); !strings.HasSuffix(got, "token.key") {
				t.Fatalf("answered %q", got)
			}
			kept := <-connected
			unrequested := func() { send(t, kept, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong") }
			if test.idle {
				unrequested()
				if _, err := kept.Read(make([]byte, 1)); err == nil {
					t.Error("the connection is still open")
				}
			}
			client := openHalfSent(t, f, "127.0.0.2")
			var busy []*net.TCPConn
			for range test.others {
				busy = append(busy, openHalfSent(t, f, "127.0.0.2"))
			}
			resume, release := f.Pause(t)
			send(t, client, challengeRequest[3:])
			for _, tcp := range busy {
				send(t, tcp, " ")
			}
			if !test.arrives && !test.idle {
				unrequested()
			}
			resume()
			if test.arrives {
				unrequested()
			}
			release()
			if got := readAll(t, client); !strings.HasSuffix(got, "token.key") {
				t.Errorf("answered %q", got)
			}
		})
	}
}

// TestLingerEnds: a client that sent more before its response, and then nothing, is
// closed within lingerTime. The head comes in two parts, so that the socket is watched.
func TestLingerEnds(t *testing.T) {
	t.Parallel()
	requested, proceed := make(chan struct{}), make(chan struct{})
	router := startIngress(t, func(tcp *net.TCPConn, r *bufio.Reader) {
		for readHead(r) != "" {
			close(requested)
			<-proceed
			_, _ = io.WriteString(tcp, okResponse)
		}
	})
	f := startServer(t, testSettings(), router)
	tcp := dial(t, f.addr)
	send(t, tcp, challengeRequest[:3])
	nstest.Await(t, "a part of the head is read", func() bool { return f.ReadingHeads() == 1 })
	send(t, tcp, challengeRequest[3:])
	<-requested
	send(t, tcp, "more")
	close(proceed)
	if got := readAll(t, tcp); !strings.HasSuffix(got, "token.key") {
		t.Errorf("answered %q", got)
	}
	nstest.Await(t, "the connection ends", func() bool { return f.InFlight() == 0 })
}

// TestIngressEndsConnection: an ingress that shuts down its side, with the connection or
// with the response in one segment, is noticed at once. Otherwise a request would be sent
// that nobody answers.
func TestIngressEndsConnection(t *testing.T) {
	t.Parallel()
	for name, respond := range map[string]bool{"with the connection": false, "with the response": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			router := startIngress(t, func(tcp *net.TCPConn, r *bufio.Reader) {
				if respond && readHead(r) != "" {
					cork(t, tcp)
					_, _ = io.WriteString(tcp, okResponse)
				}
				_ = tcp.CloseWrite()
				_, _ = io.Copy(io.Discard, r)
			})
			f := startServer(t, testSettings(), router)
			const requests = 50
			var all []*net.TCPConn
			for range requests {
				tcp := dial(t, f.addr)
				send(t, tcp, challengeRequest)
				all = append(all, tcp)
			}
			want := "502"
			if respond {
				want = "200"
			}
			for i, tcp := range all {
				if got := readAll(t, tcp); !strings.HasPrefix(got, "HTTP/1.1 "+want) {
					t.Errorf("request %d: answered %q", i, got)
				}
			}
		})
	}
}

// cork holds the next bytes back until the end, so that both are in one segment.
func cork(t *testing.T, tcp *net.TCPConn) {
	t.Helper()
	raw, err := tcp.SyscallConn()
	if err != nil {
		t.Error(err)
		return
	}
	if err := raw.Control(
		func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK, 1) }); err != nil {
		t.Error(err)
	}
}

// TestCutIsRecorded: connections that Drain cuts are recorded, forwarded or not.
func TestCutIsRecorded(t *testing.T) {
	t.Parallel()
	requested := make(chan struct{})
	router := startIngress(t, func(_ *net.TCPConn, r *bufio.Reader) {
		if readHead(r) != "" {
			close(requested)
			_, _ = r.ReadByte()
		}
	})
	f := startServer(t, testSettings(), router)
	send(t, dial(t, f.addr), challengeRequest)
	<-requested
	send(t, dial(t, f.addr), "GET")
	nstest.Await(t, "a part of the head is read", func() bool { return f.ReadingHeads() == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if cut := f.Drain(ctx); cut != 2 {
		t.Errorf("%d connections cut", cut)
	}
	challenges, rejections := f.rec.await(t, 2)
	if len(challenges) != 1 || len(rejections) != 1 || challenges[0].Status != 0 || rejections[0] != report.ClientGone {
		t.Errorf("reported %v and %v", challenges, rejections)
	}
}
