// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// TestMain also runs a router, in a process of its own.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "router" {
		os.Exit(runSilentRouter(&testing.T{}))
	}
	nstest.Main(m)
}

// testTimeout bounds every wait of a test. Only a failing test reaches it.
const testTimeout = nstest.Timeout

const request = "GET /.well-known/acme-challenge/token HTTP/1.1\r\nHost: api.example.com\r\n\r\n"

var (
	target = []byte("/.well-known/acme-challenge/token")

	vip4 = netip.MustParseAddr("192.0.2.5")
	vip6 = netip.MustParseAddr("2001:db8::5")
)

// testRouter is an ingress on a loopback address. A connHandler handles each
// connection.
type testRouter struct {
	addr  netip.AddrPort
	close func()

	mu    sync.Mutex
	count int
}

// accepted returns the number of connections so far.
func (r *testRouter) accepted() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// expect checks the number of connections so far.
func (r *testRouter) expect(t testing.TB, want int) {
	t.Helper()
	if n := r.accepted(); n != want {
		t.Errorf("%d connections, want %d", n, want)
	}
}

// readHead reads one request head, or the part that arrived.
func readHead(b *bufio.Reader) (string, error) {
	var head strings.Builder
	for {
		line, err := b.ReadString('\n')
		head.WriteString(line)
		if err != nil || line == "\r\n" {
			return head.String(), err
		}
	}
}

// readRequest reads one request head and reports whether there was one.
func readRequest(b *bufio.Reader) bool {
	_, err := readHead(b)
	return err == nil
}

type connHandler func(n int, tcp *net.TCPConn, b *bufio.Reader)

func startRouter(t testing.TB, addr string, handle connHandler) *testRouter {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	r := &testRouter{addr: ln.Addr().(*net.TCPAddr).AddrPort()}
	var all sync.WaitGroup
	open := map[net.Conn]struct{}{}
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.count++
			n := r.count
			open[c] = struct{}{}
			r.mu.Unlock()
			all.Go(func() {
				handle(n, c.(*net.TCPConn), bufio.NewReader(c))
				_ = c.Close()
			})
		}
	})
	r.close = sync.OnceFunc(func() {
		_ = ln.Close()
		r.mu.Lock()
		for c := range open {
			_ = c.Close()
		}
		r.mu.Unlock()
		all.Wait()
	})
	t.Cleanup(r.close)
	return r
}

// answersWith answers every request with text and keeps the connection.
func answersWith(text string) connHandler {
	return func(_ int, tcp *net.TCPConn, b *bufio.Reader) {
		for readRequest(b) {
			_, _ = io.WriteString(tcp, text)
		}
	}
}

// answersOnce answers one request with text and closes the connection.
func answersOnce(text string) connHandler {
	return func(_ int, tcp *net.TCPConn, b *bufio.Reader) {
		if readRequest(b) {
			_, _ = io.WriteString(tcp, text)
		}
	}
}

func answersBytewise(text string) connHandler {
	return func(_ int, tcp *net.TCPConn, b *bufio.Reader) {
		for readRequest(b) {
			for i := range len(text) {
				_, _ = tcp.Write([]byte{text[i]})
			}
		}
	}
}

// resetsAfter answers with text and then resets the connection.
func resetsAfter(text string) connHandler {
	return func(_ int, tcp *net.TCPConn, b *bufio.Reader) {
		if readRequest(b) {
			_, _ = io.WriteString(tcp, text)
			_ = tcp.SetLinger(0)
		}
	}
}

// answersAndHangs answers with text and then waits until the client closes.
func answersAndHangs(text string) connHandler {
	return func(_ int, tcp *net.TCPConn, b *bufio.Reader) {
		if readRequest(b) {
			_, _ = io.WriteString(tcp, text)
			_, _ = io.Copy(io.Discard, b)
		}
	}
}

func newPlainClient(t testing.TB, r *testRouter) *Client {
	t.Helper()
	return newClient(t, plainSettings(r))
}

// outcome is the result of an exchange.
type outcome struct {
	Out    string
	Status int
	From   netip.AddrPort
	Cause  findings.ID
	Code   int // ClientStatus
}

func exchangeOutcome(t testing.TB, c *Client, budget time.Duration, vip netip.Addr, toHead bool) outcome {
	t.Helper()
	r := newRequest()
	r.Deadline, r.VIP, r.IsHead = time.Now().Add(budget), netip.AddrPortFrom(vip, 80), toHead
	var o outcome
	var e *Error
	if o.Out, o.Status, o.From, e = exchangeText(t, c, r); e != nil {
		o.Cause, o.Code = e.Cause, e.ClientStatus
	}
	return o
}

// exchangeText runs an exchange, and returns all bytes for the client and the
// error.
func exchangeText(t testing.TB, c *Client, r *Request) (out string, status int, from netip.AddrPort, e *Error) {
	t.Helper()
	var x Relay
	defer x.Reset()
	from, e = c.Exchange(t.Context(), r, &x)
	if e != nil {
		checkTexts(t, e)
		if e.ClientStatus != 0 {
			return "", 0, from, e
		}
	}
	return string(x.Output()), x.Status(), from, e
}

// newRequest is a request with a late deadline.
func newRequest() *Request {
	return &Request{
		Deadline: time.Now().Add(testTimeout), VIP: netip.AddrPortFrom(vip4, 80), Head: []byte(request),
		Host: "api.example.com", Target: target,
	}
}

// TestNoRouteForAddress: a 503 to a request for an IP address has a cause of its own.
func TestNoRouteForAddress(t *testing.T) {
	for host, want := range map[string]findings.ID{
		"192.0.2.5": findings.RouteMissingForAddress, "[2001:db8::5]": findings.RouteMissingForAddress,
		"api.example.com": findings.RouteMissing, "192.0.2.5.example.com": findings.RouteMissing, "": findings.RouteMissing,
	} {
		a := response{status: 503}
		got, follow := a.classify(&Request{Host: host}, &activeSettings{}, false)
		if got != want || follow || !(&Error{Cause: got}).Forwarded() {
			t.Errorf("%q: %s, want %s", host, got, want)
		}
	}
}

// checkTexts checks that each text for people is one useful line.
func checkTexts(t testing.TB, e *Error) {
	t.Helper()
	code, reason := e.ClientStatus, cause.Reply(string(e.Cause))
	for name, text := range map[string]string{"reason": reason, "detail": e.Detail(), "error": e.Error()} {
		if len(text) < 10 || strings.ContainsAny(text, "\r\n") {
			t.Errorf("%s of %s is %q", name, e.Cause, text)
		}
	}
	if code != 0 && strings.ContainsAny(reason, "0123456789") {
		t.Errorf("the client gets more than the cause: %q", reason)
	}
}

const addedFields = "Via: 1.1 http01-proxyd\r\nConnection: close\r\n\r\n"

// withLength returns the added fields for a body whose length the router has not announced.
func withLength(n int) string {
	return fmt.Sprintf("Via: 1.1 http01-proxyd\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", n)
}

type responseTest struct {
	handler connHandler
	isHead  bool
	want    outcome
	twice   bool // the next exchange reuses the connection
}

// forwardedUnchanged is a case in which the client gets head and body unchanged.
func forwardedUnchanged(head, body string, status int, cause findings.ID) responseTest {
	return responseTest{handler: answersWith(head + "\r\n" + body), want: outcome{
		Out:    head + addedFields + body,
		Status: status, Cause: cause,
	}, twice: true}
}

func TestResponses(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	page := "HTTP/1.0 503 Service Unavailable\r\nPragma: no-cache\r\nContent-Type: text/html\r\n\r\n<html>no route</html>"
	long := strings.Repeat("x", maxBody) // the longest that is forwarded
	for name, test := range map[string]responseTest{
		"by length": forwardedUnchanged(ok+"Content-Length: 9\r\nSet-Cookie: a=b\r\n", "token.key", 200, ""),
		"byte by byte": {
			handler: answersBytewise(ok + "Content-Length: 9\r\n\r\ntoken.key"),
			want:    outcome{Out: ok + "Content-Length: 9\r\n" + addedFields + "token.key", Status: 200},
			twice:   true,
		},
		"an empty body": forwardedUnchanged(ok+"Content-Length: 0\r\n", "", 200, ""),
		"a long body":   forwardedUnchanged(ok+"Content-Length: 65536\r\n", long, 200, ""),
		"a long body in chunks": {
			handler: answersWith(ok + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("400\r\n"+long[:1024]+"\r\n", 64) +
				"0\r\n\r\n"),
			want:  outcome{Out: ok + withLength(65536) + long, Status: 200},
			twice: true,
		},
		"a long body until close": {
			handler: answersOnce(ok + "\r\n" + long),
			want:    outcome{Out: ok + withLength(65536) + long, Status: 200},
		},
		"HEAD of what is too long": {
			handler: answersWith(ok + "Content-Length: 65537\r\n\r\n"),
			isHead:  true,
			want:    outcome{Out: ok + "Content-Length: 65537\r\n" + addedFields, Status: 200},
			twice:   true,
		},
		"too long a body": {
			handler: answersOnce(ok + "Content-Length: 65537\r\n\r\n" + long + "x"),
			want:    outcome{Cause: findings.ResponseTooLarge, Code: 502},
		},
		"too long a chunk": {
			handler: answersOnce(ok + "Transfer-Encoding: chunked\r\n\r\n10001\r\n" + long),
			want:    outcome{Cause: findings.ResponseTooLarge, Code: 502},
		},
		"too many chunks": {
			handler: answersOnce(ok + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\nx\r\n", maxChunks+1)),
			want:    outcome{Cause: findings.ResponseTooLarge, Code: 502},
		},
		"chunks are decoded": {
			handler: answersWith(ok +
				"Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n5;a=b\r\ntoken\r\n4\r\n.key\r\n0\r\nX: y\r\n\r\n"),
			want:  outcome{Out: ok + withLength(9) + "token.key", Status: 200},
			twice: true,
		},
		"to HEAD": {
			handler: answersWith(ok + "Content-Length: 9\r\n\r\n"),
			isHead:  true,
			want:    outcome{Out: ok + "Content-Length: 9\r\n" + addedFields, Status: 200},
			twice:   true,
		},
		"204": forwardedUnchanged("HTTP/1.1 204 No Content\r\nX: y\r\n", "", 204, ""),
		"304 with the length of what it is not sending": forwardedUnchanged(
			"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n", "", 304, ""),
		"interim answers are dropped": {
			handler: answersWith("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok +
				"Content-Length: 1\r\n\r\nx"),
			want:  outcome{Out: ok + "Content-Length: 1\r\n" + addedFields + "x", Status: 200},
			twice: true,
		},
		"no reason phrase and no space": {
			handler: answersWith("HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx"),
			want:    outcome{Out: "HTTP/1.1 200 \r\nContent-Length: 1\r\n" + addedFields + "x", Status: 200},
			twice:   true,
		},
		"until close": {
			handler: answersOnce(ok + "X: y\r\n\r\ntoken.key"),
			want:    outcome{Out: ok + "X: y\r\n" + withLength(9) + "token.key", Status: 200},
		},
		"the upstream closes afterwards": {
			handler: answersOnce(ok + "Content-Length: 9\r\nConnection: close\r\n\r\ntoken.key"),
			want:    outcome{Out: ok + "Content-Length: 9\r\n" + addedFields + "token.key", Status: 200},
		},
		"bytes behind the answer": {
			handler: answersWith(ok + "Content-Length: 5\r\n\r\ntoken.key"),
			want:    outcome{Out: ok + "Content-Length: 5\r\n" + addedFields + "token", Status: 200},
		},
		"hop-by-hop fields end here": {
			handler: answersWith(ok +
				"Connection: keep-alive, X-A, Content-Length\r\nKeep-Alive: timeout=5\r\nX-A: 1\r\nProxy-Connection: " +
				"x\r\nUpgrade: h2c\r\nTE: x\r\nContent-Length: 1\r\nX-B: 2\r\n\r\nx"),
			want:  outcome{Out: ok + "Content-Length: 1\r\nX-B: 2\r\n" + addedFields + "x", Status: 200},
			twice: true,
		},
		"HTTP/1.0": {
			handler: answersOnce("HTTP/1.0 404 Not Found\r\nContent-Length: 1\r\n\r\nx"),
			want: outcome{Out: "HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\nVia: 1.0 http01-proxyd\r\nConnection: " +
				"close\r\n\r\nx", Status: 404},
		},
		"a router without a route": {
			handler: answersOnce(page),
			want: outcome{
				Out: "HTTP/1.1 503 Service Unavailable\r\nPragma: no-cache\r\nContent-Type: text/html\r\nVia: 1.0 " +
					"http01-proxyd\r\nConnection: close\r\nContent-Length: 21\r\n\r\n<html>no route</html>",
				Status: 503, Cause: findings.RouteMissing,
			},
		},
		"a 503 with the cluster's own page": forwardedUnchanged(
			"HTTP/1.1 503 Busy\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n", "", 503, findings.RouteMissing),
		"a redirect to https": forwardedUnchanged(
			"HTTP/1.1 302 Found\r\nLocation: HTTPS://api.example.com/.well-known/acme-challenge/token\r\nContent-Length: 0\r\n",
			"", 302, findings.RouteRedirectsHTTPS),
		"a redirect elsewhere": forwardedUnchanged(
			"HTTP/1.1 302 Found\r\nLocation: http://other.example.com/\r\nContent-Length: 0\r\n", "", 302,
			findings.RouteRedirectsElsewhere),
		"cut by length": {
			handler: answersOnce(ok + "Content-Length: 9\r\n\r\ntoken"),
			want:    outcome{Cause: findings.ResponseTruncated, Code: 502},
		},
		"cut within a chunk": {
			handler: answersOnce(ok + "Transfer-Encoding: chunked\r\n\r\n9\r\ntoken"),
			want:    outcome{Cause: findings.ResponseTruncated, Code: 502},
		},
		"cut between chunks": {
			handler: answersOnce(ok + "Transfer-Encoding: chunked\r\n\r\n5\r\ntoken\r\n"),
			want:    outcome{Cause: findings.ResponseTruncated, Code: 502},
		},
		"cut in the head": {handler: answersOnce(ok + "Content-Le"), want: outcome{
			Cause: findings.ResponseTruncated,
			Code:  502,
		}},
		"no bytes at all": {handler: answersOnce(""), want: outcome{
			Cause: findings.IngressClosedConnection,
			Code:  502,
		}},
		"reset": {handler: resetsAfter(""), want: outcome{Cause: findings.IngressResetConnection, Code: 502}},
		"another protocol": {
			handler: answersOnce("220 mail.example.com ESMTP\r\n"),
			want:    outcome{Cause: findings.ResponseMalformed, Code: 502},
		},
		"a TLS alert": {
			handler: answersOnce("\x15\x03\x01\x00\x02\x02\x46"),
			want:    outcome{Cause: findings.ResponseMalformed, Code: 502},
		},
		"HTTP/2": {
			handler: answersOnce("HTTP/2.0 200 OK\r\n\r\n"),
			want:    outcome{Cause: findings.ResponseMalformed, Code: 502},
		},
		"switching protocols": {
			handler: answersOnce("HTTP/1.1 101 Switching Protocols\r\n\r\n"),
			want:    outcome{Cause: findings.ResponseMalformed, Code: 502},
		},
		"endless interim": {
			handler: answersOnce(strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100)),
			want:    outcome{Cause: findings.ResponseMalformed, Code: 502},
		},
		"LF": {
			handler: answersOnce("HTTP/1.1 200 OK\nContent-Length: 0\n\n"),
			want:    outcome{Cause: findings.ResponseMalformed, Code: 502},
		},
		"status of four digits": {
			handler: answersOnce("HTTP/1.1 2000 OK\r\n\r\n"),
			want:    outcome{Cause: findings.ResponseMalformed, Code: 502},
		},
		"status 600": {
			handler: answersOnce("HTTP/1.1 600 OK\r\n\r\n"),
			want:    outcome{Cause: findings.ResponseMalformed, Code: 502},
		},
		"a folded field": {
			handler: answersOnce(ok + "X: a\r\n b\r\n\r\n"),
			want:    outcome{Cause: findings.ResponseMalformed, Code: 502},
		},
		"a space before colon": {
			handler: answersOnce(ok + "Content-Length : 5\r\n\r\n"),
			want:    outcome{Cause: findings.ResponseMalformed, Code: 502},
		},
		"a NUL in a value": {
			handler: answersOnce(ok + "X: a\x00\r\n\r\n"),
			want:    outcome{Cause: findings.ResponseMalformed, Code: 502},
		},
		"two lengths": {
			handler: answersOnce(ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n"),
			want:    outcome{Cause: findings.ResponseMalformed, Code: 502},
		},
		"two lengths alike": {
			handler: answersOnce(ok + "Content-Length: 5\r\nContent-Length: 5\r\n\r\ntoken"),
			want:    outcome{Cause: findings.ResponseMalformed, Code: 502},
		},
		"a negative length": {
			handler: answersOnce(ok + "Content-Length: -5\r\n\r\n"),
			want:    outcome{Cause: findings.ResponseMalformed, Code: 502},
		},
		"a length out of range": {
			handler: answersOnce(ok + "Content-Length: 9223372036854775808\r\n\r\n"),
			want:    outcome{Cause: findings.ResponseMalformed, Code: 502},
		},
		"length and coding": {
			handler: answersOnce(ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
			want:    outcome{Cause: findings.ResponseMalformed, Code: 502},
		},
		"another coding": {
			handler: answersOnce(ok + "Transfer-Encoding: gzip, chunked\r\n\r\n"),
			want:    outcome{Cause: findings.ResponseMalformed, Code: 502},
		},
		"a coding in HTTP/1.0": {
			handler: answersOnce("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
			want:    outcome{Cause: findings.ResponseMalformed, Code: 502},
		},
		"too many fields": {
			handler: answersOnce(ok + strings.Repeat("X: y\r\n", 129) + "\r\n"),
			want:    outcome{Cause: findings.ResponseMalformed, Code: 502},
		},
		"too long a head": {
			handler: answersOnce(ok + "X: " + long + "\r\n\r\n"),
			want:    outcome{Cause: findings.ResponseMalformed, Code: 502},
		},
		"a bad chunk size": {
			handler: answersOnce(ok + "Transfer-Encoding: chunked\r\n\r\n0x5\r\ntoken\r\n0\r\n\r\n"),
			want:    outcome{Cause: findings.ResponseMalformed, Code: 502},
		},
		"a chunk too long": {
			handler: answersOnce(ok + "Transfer-Encoding: chunked\r\n\r\n5\r\ntokenX\r\n0\r\n\r\n"),
			want:    outcome{Cause: findings.ResponseMalformed, Code: 502},
		},
		"cut before the body": {
			handler: answersOnce(ok + "Content-Length: 9\r\n\r\n"),
			want:    outcome{Cause: findings.ResponseTruncated, Code: 502},
		},
		"cut before a chunk": {
			handler: answersOnce(ok + "Transfer-Encoding: chunked\r\n\r\n5\r\n"),
			want:    outcome{Cause: findings.ResponseTruncated, Code: 502},
		},
		"reset before the end": {handler: resetsAfter(ok + "\r\n"), want: outcome{
			Cause: findings.ResponseTruncated,
			Code:  502,
		}},
		"an empty body until close": {
			handler: answersOnce(ok + "\r\n"),
			want:    outcome{Out: ok + withLength(0), Status: 200},
		},
		"sent back to us": forwardedUnchanged(
			"HTTP/1.1 502 Bad Gateway\r\nProxy-Status: HTTP01-proxyd; error=proxy_loop_detected, router\r\nContent-Length: 1\r\n", "x", 502, findings.RouteLoop),
		"another proxy's loop": forwardedUnchanged(
			"HTTP/1.1 502 Bad Gateway\r\nProxy-Status: router; error=proxy_loop_detected\r\nContent-Length: 1\r\n", "x", 502,
			""),
	} {
		t.Run(name, func(t *testing.T) {
			r := startRouter(t, "127.0.0.1:0", test.handler)
			c := newPlainClient(t, r)
			got := exchangeOutcome(t, c, testTimeout, vip4, test.isHead)
			test.want.From = r.addr
			if diff := cmp.Diff(test.want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			second := exchangeOutcome(t, c, testTimeout, vip4, test.isHead)
			if second.Status != got.Status || second.Cause != got.Cause {
				t.Errorf("the second exchange: %+v, the first: %+v", second, got)
			}
			want := 2
			if test.twice {
				want = 1
			}
			r.expect(t, want)
		})
	}
}

// TestResponseTimeout has an upstream that accepts and sends nothing, or stops in the
// middle.
func TestResponseTimeout(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for name, test := range map[string]struct {
		text string
		want outcome
	}{
		"silent":                {"", outcome{Cause: findings.IngressNoResponse, Code: 504}},
		"stops in the head":     {ok, outcome{Cause: findings.IngressNoResponse, Code: 504}},
		"stops behind the head": {ok + "Content-Length: 9\r\n\r\n", outcome{Cause: findings.IngressNoResponse, Code: 504}},
		"stops in a chunk's size": {ok + "Transfer-Encoding: chunked\r\n\r\n5", outcome{
			Cause: findings.IngressNoResponse,
			Code:  504,
		}},
		"stops in the body":  {ok + "Content-Length: 9\r\n\r\ntoken", outcome{Cause: findings.IngressNoResponse, Code: 504}},
		"stops before close": {ok + "\r\ntoken", outcome{Cause: findings.IngressNoResponse, Code: 504}},
	} {
		t.Run(name, func(t *testing.T) {
			r := startRouter(t, "127.0.0.1:0", answersAndHangs(test.text))
			got := exchangeOutcome(t, newPlainClient(t, r), 300*time.Millisecond, vip4, false)
			test.want.From = r.addr
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

const okResponse = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ntoken.key"

// TestIdleConnectionLost has an upstream that closes each connection after one
// response, just as the next request arrives. The request is sent again.
func TestIdleConnectionLost(t *testing.T) {
	for name, linger := range map[string]int{"closed": -1, "reset": 0} {
		t.Run(name, func(t *testing.T) {
			r := startRouter(t, "127.0.0.1:0", func(_ int, tcp *net.TCPConn, b *bufio.Reader) {
				if !readRequest(b) {
					return
				}
				_, _ = io.WriteString(tcp, okResponse)
				// The next request is read, or its arrival detected, before the
				// end.
				_, _ = b.ReadByte()
				_ = tcp.SetLinger(linger)
			})
			c := newPlainClient(t, r)
			for i := range 5 {
				if got := exchangeOutcome(t, c, testTimeout, vip4, false); got.Status != 200 || got.Cause != "" {
					t.Fatalf("exchange %d: %+v", i, got)
				}
			}
			r.expect(t, 5)
		})
	}
}

// TestKeptConnectionWithoutPath: the packets of kept connections do not arrive any more. The
// request is sent again on a new connection, and not on another kept one.
func TestKeptConnectionWithoutPath(t *testing.T) {
	nstest.Require(t)
	t.Parallel()
	for _, statement := range nstest.PathEnds() {
		t.Run(statement, func(t *testing.T) {
			t.Parallel()
			const kept = 2
			ports, proceed := make(chan uint16, kept+1), make(chan struct{})
			r := startRouter(t, "127.0.0.1:0", func(n int, tcp *net.TCPConn, b *bufio.Reader) {
				ports <- tcp.RemoteAddr().(*net.TCPAddr).AddrPort().Port()
				<-proceed
				answersWith(okResponse)(n, tcp, b)
			})
			c := newPlainClient(t, r)
			var all sync.WaitGroup
			for range kept {
				all.Go(func() { wantAnswered(t, c, newRequest()) })
			}
			first, second := <-ports, <-ports
			close(proceed)
			all.Wait()
			wantIdle(t, c, kept, "concurrent requests")
			nstest.EndPath(t, first, statement)
			nstest.EndPath(t, second, statement)
			wantAnswered(t, c, newRequest())
			r.expect(t, kept+1)
			wantIdle(t, c, kept, "a request whose connection was lost") // the other one and the new one
		})
	}
}

// testIdle is the number of idle connections that a test permits.
const testIdle = 64

func idleCount(c *Client) int {
	idle := &c.active.Load().idle
	idle.mu.Lock()
	defer idle.mu.Unlock()
	return len(idle.list)
}

// wantIdle checks the number of idle connections after the event.
func wantIdle(t testing.TB, c *Client, want int, event string) {
	t.Helper()
	if n := idleCount(c); n != want {
		t.Errorf("%d connections are kept after %s, want %d", n, event, want)
	}
}

// TestIdleTime: each connection is kept for its own time, whatever the list has besides.
func TestIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, route := idleConns{limit: 8}, new(upstreamRoute)
		put := func() net.Conn {
			near, far := net.Pipe()
			bottom := &socket{Conn: near}
			p.put(&conn{Conn: bottom, socket: bottom, route: route, kept: true, unregister: func() bool { return true }},
				5*time.Second)
			return far
		}
		expect := func(when string, far net.Conn, open bool) {
			t.Helper()
			synctest.Wait()
			_ = far.SetReadDeadline(time.Now()) // the end has precedence
			if _, err := far.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) != open {
				t.Errorf("%s: %v, want open: %t", when, err, open)
			}
		}
		first := put()
		<-time.After(3 * time.Second)
		second := put()
		<-time.After(2 * time.Second)
		expect("the first after 5 s", first, false)
		expect("the second after 2 s", second, true)
		<-time.After(3 * time.Second)
		expect("the second after 5 s", second, false)
		third := put()
		<-time.After(5 * time.Second)
		expect("a later one after 5 s", third, false)
		oldest := put()
		for range p.limit {
			put()
		}
		expect("the oldest of too many", oldest, false)
	})
}

func TestIdleConnectionsAreBounded(t *testing.T) {
	for maxConnections, want := range map[int]int{4096: maxIdle, 1 << 20: maxIdle, 800: 100, 1: 1, 0: 0} {
		if got := newActiveSettings(Settings{MaxConnections: maxConnections}).idle.limit; got != want {
			t.Errorf("at most %d idle connections for %d clients, want %d", got, maxConnections, want)
		}
	}
}

func TestCloseEndsExchanges(t *testing.T) {
	asked := make(chan struct{})
	r := startRouter(t, "127.0.0.1:0", func(_ int, _ *net.TCPConn, b *bufio.Reader) {
		if readRequest(b) {
			close(asked)
			_, _ = io.Copy(io.Discard, b)
		}
	})
	c := newPlainClient(t, r)
	done := make(chan outcome)
	go func() { done <- exchangeOutcome(t, c, testTimeout, vip4, false) }()
	<-asked
	c.Close()
	if got := <-done; got.Cause != findings.ExchangeStopped || got.Code != 502 {
		t.Errorf("%+v", got)
	}
	if got := exchangeOutcome(t, c, testTimeout, vip4, false); got.Cause != findings.ExchangeStopped {
		t.Errorf("after Close: %+v", got)
	}
}

// TestEndOfContext: the end of its context ends an exchange, on a new connection and on a kept one.
// A kept connection outlives the context of the exchange that opened it.
func TestEndOfContext(t *testing.T) {
	asked := make(chan struct{})
	r := startRouter(t, "127.0.0.1:0", func(_ int, tcp *net.TCPConn, b *bufio.Reader) {
		for i := 0; readRequest(b) && i == 0; i++ {
			_, _ = io.WriteString(tcp, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
		close(asked)
		_, _ = io.Copy(io.Discard, b)
	})
	c := newPlainClient(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	var x Relay
	defer x.Reset()
	if _, e := c.Exchange(ctx, newRequest(), &x); e != nil {
		t.Fatal(e)
	}
	cancel()
	x.Reset()
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, e := c.Exchange(ctx, newRequest(), &x); e == nil || e.Cause != findings.ExchangeStopped {
		t.Errorf("on the kept connection: %v", e)
	}
	if _, e := c.Exchange(ctx, newRequest(), &x); e == nil || e.Cause != findings.ExchangeStopped {
		t.Errorf("after the end of its context: %v", e)
	}
	if n := r.accepted(); n > 2 {
		t.Errorf("%d connections", n)
	}
}

// TestFamilies has one router on each loopback address, on one port, and makes them
// unreachable in every way of a network.
func TestFamilies(t *testing.T) {
	nstest.Require(t)
	v4, v6 := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")
	unroutable4, unroutable6 := netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("2001:db8:ffff::1")
	dropped4, dropped6 := netip.MustParseAddr("127.0.0.9"), netip.MustParseAddr("::9")
	nstest.AddAddress(t, "lo", "::9/128")
	nstest.RunWithInput(t,
		"table inet blackhole {\nchain output {\ntype filter hook input priority 0\nip daddr 127.0.0.9 drop\nip6 daddr "+
			"::9 drop\n}\n}\n", "nft", "-f", "-")
	defer nstest.Run(t, "ip", "addr", "del", "::9/128", "dev", "lo")
	defer nstest.Run(t, "nft", "delete", "table", "inet", "blackhole")

	r4 := startRouter(t, "127.0.0.1:0", answersWith(okResponse))
	port := r4.addr.Port()
	r6 := startRouter(t, fmt.Sprintf("[::1]:%d", port), answersWith(okResponse))
	at := func(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, port) }
	refusing := netip.MustParseAddr("127.0.0.77")

	for name, test := range map[string]struct {
		vip     netip.Addr
		ingress []netip.Addr
		want    netip.AddrPort
		cause   findings.ID
		code    int
	}{
		"IPv4 prefers IPv4":      {vip4, []netip.Addr{v6, v4}, r4.addr, "", 0},
		"IPv6 prefers IPv6":      {vip6, []netip.Addr{v4, v6}, r6.addr, "", 0},
		"IPv6 only":              {vip4, []netip.Addr{v6}, r6.addr, "", 0},
		"IPv4 only":              {vip6, []netip.Addr{v4}, r4.addr, "", 0},
		"IPv4 refuses":           {vip4, []netip.Addr{refusing, v6}, r6.addr, "", 0},
		"IPv4 is unroutable":     {vip4, []netip.Addr{unroutable4, v6}, r6.addr, "", 0},
		"IPv6 is unroutable":     {vip6, []netip.Addr{v4, unroutable6}, r4.addr, "", 0},
		"IPv4 drops":             {vip4, []netip.Addr{dropped4, v6}, r6.addr, "", 0},
		"IPv6 drops":             {vip6, []netip.Addr{v4, dropped6}, r4.addr, "", 0},
		"the second of a family": {vip4, []netip.Addr{refusing, v6, v4}, r4.addr, "", 0},
		"all refuse":             {vip4, []netip.Addr{refusing}, at(refusing), findings.IngressRefused, 502},
		"all drop": {
			vip4,
			[]netip.Addr{dropped6, dropped4},
			at(dropped4), findings.IngressTimeout,
			504,
		},
		"all unroutable": {
			vip6,
			[]netip.Addr{unroutable4, unroutable6},
			at(unroutable6),
			findings.IngressUnreachable, 502,
		},
		"the request's family is reported": {
			vip4,
			[]netip.Addr{dropped6, refusing},
			at(refusing), findings.IngressRefused,
			502,
		},
		"none": {vip4, nil, netip.AddrPort{}, findings.IngressNoAddress, 502},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, Settings{Upstream: ingress.Upstream{
				Addresses: test.ingress, Port: port,
				ConnectTimeout: 200 * time.Millisecond,
			}})
			got := exchangeOutcome(t, c, testTimeout, test.vip, false)
			if got.From != test.want || got.Cause != test.cause || got.Code != test.code {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestSilentFamilyLeavesTime uses an upstream of the request's family that accepts and never
// answers. The other one is still tried within the deadline.
func TestSilentFamilyLeavesTime(t *testing.T) {
	nstest.Require(t)
	silent := startRouter(t, "127.0.0.1:0", answersAndHangs(""))
	speaks := startRouter(t, fmt.Sprintf("[::1]:%d", silent.addr.Port()), answersWith(okResponse))
	s := plainSettings(silent)
	s.Addresses = append(s.Addresses, speaks.addr.Addr())
	c := newClient(t, s)
	if got := exchangeOutcome(t, c, 4*time.Second, vip4, false); got.Status != 200 || got.From != speaks.addr {
		t.Errorf("%+v", got)
	}
}

func TestProbe(t *testing.T) {
	nstest.Require(t)
	r := startRouter(t, "127.0.0.1:0", answersWith(okResponse))
	refusing, unroutable := netip.MustParseAddr("127.0.0.77"), netip.MustParseAddr("2001:db8:ffff::1")
	c := newClient(t, Settings{Upstream: ingress.Upstream{
		Addresses: []netip.Addr{r.addr.Addr(), refusing, unroutable},
		Port:      r.addr.Port(), ConnectTimeout: testTimeout,
	}})
	got := map[netip.Addr]findings.ID{}
	for _, found := range c.Probe(t.Context()) {
		cause := findings.ID("")
		if found.Failure != nil {
			cause = findings.ID(found.Failure.Cause)
		}
		got[found.Addr.Addr()] = cause
	}
	want := map[netip.Addr]findings.ID{
		r.addr.Addr(): "", refusing: findings.IngressRefused,
		unroutable: findings.IngressUnreachable,
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func BenchmarkExchange(b *testing.B) {
	r := startRouter(b, "127.0.0.1:0", answersWith(okResponse))
	benchmark(b, newPlainClient(b, r))
	r.expect(b, 1)
}

func benchmark(b *testing.B, c *Client) {
	b.Helper()
	ask := newRequest()
	var x Relay
	b.ReportAllocs()
	for b.Loop() {
		ask.Deadline = time.Now().Add(testTimeout)
		if _, failure := c.Exchange(b.Context(), ask, &x); failure != nil || x.Status() != 200 {
			b.Fatal(x.Status(), failure)
		}
		x.Reset()
	}
}
