// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

const api = "api.example.com"

func (p pki) config(t testing.TB, names ...string) *tls.Config {
	t.Helper()
	return &tls.Config{Certificates: []tls.Certificate{serverCertificate(t, p.intermediate, nil, names...)}}
}

// wantAnswered fails the test unless the exchange returns okResponse.
func wantAnswered(t testing.TB, c *Client, r *Request) {
	t.Helper()
	if status, body, e := doExchange(t, c, r); status != 200 || body != "token.key" || e != nil {
		t.Fatalf("%d %q, %v", status, body, e)
	}
}

// requestFor is a request for host.
func requestFor(host string) *Request {
	r := newRequest()
	r.Host, r.Head = host, []byte("GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
	return r
}

// forEachTLSVersion runs a test with each version of TLS, and a router with a
// certificate for name.
func forEachTLSVersion(t *testing.T, name string, handle tlsHandler, test func(t *testing.T, p pki, r *tlsRouter)) {
	t.Helper()
	for version, maxVersion := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			p := newPKI(t)
			config := p.config(t, name)
			config.MaxVersion = maxVersion
			test(t, p, startTLSRouter(t, "127.0.0.1:0", config, handle))
		})
	}
}

// TestIdleTLSConnectionLost: the router closes an idle connection, with and without
// close_notify, or sends an unrequested response. The next request is sent once, on
// another connection.
func TestIdleTLSConnectionLost(t *testing.T) {
	t.Parallel()
	const evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
	for name, end := range map[string]func(conn *tls.Conn){
		"a goodbye":         func(conn *tls.Conn) { _ = conn.CloseWrite() },
		"closed":            func(conn *tls.Conn) { _ = conn.NetConn().Close() },
		"reset":             func(conn *tls.Conn) { _ = conn.NetConn().(*net.TCPConn).SetLinger(0); _ = conn.NetConn().Close() },
		"an answer unasked": func(conn *tls.Conn) { _, _ = io.WriteString(conn, evil) },
		"no TLS":            func(conn *tls.Conn) { _, _ = io.WriteString(conn.NetConn(), evil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPKI(t)
			proceed, gone := make(chan struct{}), make(chan struct{})
			r := startTLSRouter(t, "127.0.0.1:0", p.config(t, api), func(n int, conn *tls.Conn, b *bufio.Reader) {
				for readRequest(b) {
					_, _ = io.WriteString(conn, okResponse)
					if n == 1 {
						<-proceed
						end(conn)
						close(gone)
					}
				}
			})
			c := newClient(t, tlsSettings(r.testRouter, p.trustedCAs()))
			wantAnswered(t, c, newRequest())
			close(proceed)
			<-gone
			wantAnswered(t, c, newRequest())
			wantAnswered(t, c, newRequest())
			r.expect(t, 2)
			if got, want := r.bytes.Load(), int64(3*len(request)); got != want {
				t.Errorf("the router got %d bytes of requests, want %d", got, want)
			}
		})
	}
}

// TestSessionsAreResumed: a new connection for the same name resumes a session, and
// one for another name does not.
func TestSessionsAreResumed(t *testing.T) {
	t.Parallel()
	forEachTLSVersion(t, "*.example.com", answersOnceOverTLS, func(t *testing.T, p pki, r *tlsRouter) {
		t.Helper()
		c := newClient(t, tlsSettings(r.testRouter, p.trustedCAs()))
		for range 5 {
			wantAnswered(t, c, requestFor("api.example.com"))
		}
		wantAnswered(t, c, requestFor("other.example.com"))
		if full, resumed := r.full.Load(), r.resumed.Load(); full != 2 || resumed != 4 {
			t.Errorf("%d handshakes from the start, %d resumed", full, resumed)
		}
	})
}

// answersOnceOverTLS answers one request with Connection: close, and closes the
// connection.
func answersOnceOverTLS(_ int, conn *tls.Conn, b *bufio.Reader) {
	if readRequest(b) {
		_, _ = io.WriteString(conn, strings.Replace(okResponse, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1))
	}
}

// TestResumedSessionsAreVerified: a resumed session is verified again. The test
// changes the verifier without a new one, as the clock does.
func TestResumedSessionsAreVerified(t *testing.T) {
	t.Parallel()
	const apps = "*.apps.example.com"
	forEachTLSVersion(t, apps, answersOnceOverTLS, func(t *testing.T, p pki, r *tlsRouter) {
		t.Helper()
		c := newClient(t, tlsSettings(r.testRouter, p.trustedCAs(), apps))
		wantAnswered(t, c, newRequest())
		wantAnswered(t, c, newRequest())
		sent := r.bytes.Load()
		v := c.active.Load().secure[0].verifier
		v.names[0] = "other.example.com"
		wantCause(t, c, newRequest(), findings.IngressTLSName)
		v.names[0], v.trusted = apps, newPKI(t).trustedCAs()
		wantCause(t, c, newRequest(), findings.IngressTLSUntrusted)
		r.close()
		if n := r.bytes.Load(); n != sent || r.resumed.Load() == 0 {
			t.Errorf("%d bytes of requests after that; %d sessions were resumed", n-sent, r.resumed.Load())
		}
	})
}

// TestServerNames: each host name is sent as SNI, an address is not, and a
// connection for one name takes no request for another.
func TestServerNames(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	r := startTLSRouter(t, "127.0.0.1:0", p.config(t, "*.apps.example.com"), answersOverTLS)
	c := newClient(t, tlsSettings(r.testRouter, p.trustedCAs(), "*.apps.example.com"))
	hosts := []string{"api.example.com", "other.example.com", "192.0.2.5", "[2001:db8::5]", ""}
	for range 2 {
		for _, host := range hosts {
			wantAnswered(t, c, requestFor(host))
		}
	}
	r.expect(t, len(hosts))
	asked := map[any]bool{}
	r.names.Range(func(name, _ any) bool {
		asked[name] = true
		return true
	})
	if len(asked) != 3 || !asked["api.example.com"] || !asked["other.example.com"] || !asked[""] {
		t.Errorf("SNI of %v", asked)
	}
}

// TestTrustChanges: after a change of the CAs, neither a kept connection nor a session of the old
// ones is used again. Exchanges in progress end under the old CAs.
func TestTrustChanges(t *testing.T) {
	t.Parallel()
	p, other := newPKI(t), newPKI(t)
	both := NewTrustedCAs([][]byte{p.root.Raw, other.root.Raw})
	reached, proceed := make(chan struct{}), make(chan struct{})
	r := startTLSRouter(t, "127.0.0.1:0", p.config(t, api), func(n int, conn *tls.Conn, b *bufio.Reader) {
		for first := true; readRequest(b); first = false {
			if n == 1 && !first {
				reached <- struct{}{}
				<-proceed
			}
			_, _ = io.WriteString(conn, okResponse)
		}
	})
	settings := tlsSettings(r.testRouter, p.trustedCAs())
	c := newClient(t, settings)
	wantAnswered(t, c, newRequest())
	under := make(chan *Error, 1)
	go func() {
		_, _, e := doExchange(t, c, newRequest())
		under <- e
	}()
	<-reached
	settings.TrustedCAs = both
	c.Update(settings)
	wantAnswered(t, c, newRequest())
	proceed <- struct{}{}
	if e := <-under; e != nil {
		t.Errorf("what was in progress: %v", e)
	}
	wantAnswered(t, c, newRequest())
	r.expect(t, 2)
	settings.TrustedCAs = other.trustedCAs()
	c.Update(settings)
	wantCause(t, c, newRequest(), findings.IngressTLSUntrusted)
	settings.TrustedCAs, settings.VerifyNames = both, []string{"x.example.com"}
	c.Update(settings)
	wantAnswered(t, c, newRequest())
	r.expect(t, 4)
	if n := r.resumed.Load(); n != 0 {
		t.Error("a session of the old trust was resumed")
	}
}

// TestNoTLS covers peers that are no TLS router.
func TestNoTLS(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	old := p.config(t, api)
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	clientAuth := p.config(t, api)
	clientAuth.ClientAuth = tls.RequireAnyClientCert
	over := func(config *tls.Config) connHandler {
		return func(_ int, tcp *net.TCPConn, _ *bufio.Reader) {
			conn := tls.Server(tcp, config)
			if conn.Handshake() == nil {
				_, _ = io.Copy(io.Discard, conn)
			}
		}
	}
	for name, test := range map[string]struct {
		handler connHandler
		want    findings.ID
		code    int
		message string
	}{
		"plain HTTP": {func(_ int, tcp *net.TCPConn, _ *bufio.Reader) {
			_, _ = io.WriteString(tcp, "HTTP/1.1 400 Bad Request\r\n\r\n")
		}, findings.IngressTLSHandshake, 502, "it answers in plain HTTP"},
		"another protocol": {func(_ int, tcp *net.TCPConn, _ *bufio.Reader) { _, _ = io.WriteString(tcp, "220 mail ESMTP\r\n") }, findings.IngressTLSHandshake, 502, "its first bytes are not TLS"},
		"TLS 1.1":          {over(old), findings.IngressTLSHandshake, 502, "version"},
		"plain text after the handshake": {func(_ int, tcp *net.TCPConn, _ *bufio.Reader) {
			conn := tls.Server(tcp, p.config(t, api))
			if readRequest(bufio.NewReader(conn)) {
				_, _ = io.WriteString(tcp, "HTTP/1.1 400 Bad Request\r\n\r\n")
			}
		}, findings.IngressTLSHandshake, 502, "it answers in plain HTTP"},
		"requires a certificate": {over(clientAuth), findings.IngressTLSHandshake, 502, "certificate required"},
		"closes": {func(_ int, _ *net.TCPConn, b *bufio.Reader) {
			_, _ = b.ReadByte()
			_, _ = io.CopyN(io.Discard, b, int64(b.Buffered()))
		}, findings.IngressClosedConnection, 502, "PROXY"},
		"resets": {
			func(_ int, tcp *net.TCPConn, b *bufio.Reader) { _, _ = b.ReadByte(); _ = tcp.SetLinger(0) },
			findings.IngressResetConnection, 502, "PROXY",
		},
		"closes in the middle": {func(_ int, tcp *net.TCPConn, b *bufio.Reader) {
			_, _ = b.ReadByte()
			_, _ = io.CopyN(io.Discard, b, int64(b.Buffered()))
			_, _ = io.WriteString(tcp, "\x16\x03\x03\x00\x40\x02")
		}, findings.IngressTLSHandshake, 502, "before the end"},
		"silent": {
			func(_ int, _ *net.TCPConn, b *bufio.Reader) { _, _ = io.Copy(io.Discard, b) }, findings.IngressNoResponse,
			504, "",
		},
		"silent in the middle": {func(_ int, tcp *net.TCPConn, b *bufio.Reader) {
			_, _ = io.WriteString(tcp, "\x16\x03\x03\x00\x40\x02")
			_, _ = io.Copy(io.Discard, b)
		}, findings.IngressNoResponse, 504, ""},
		"an alert": {func(_ int, tcp *net.TCPConn, b *bufio.Reader) {
			_, _ = b.ReadByte()
			_, _ = io.WriteString(tcp, "\x15\x03\x03\x00\x02\x02\x28")
			_, _ = io.Copy(io.Discard, b)
		}, findings.IngressTLSHandshake, 502, "handshake failure"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRouter(t, "127.0.0.1:0", test.handler)
			s := tlsSettings(r, p.trustedCAs())
			if test.want == findings.IngressNoResponse {
				s.ConnectTimeout = 200 * time.Millisecond
			}
			_, _, e := doExchange(t, newClient(t, s), newRequest())
			if e == nil || e.Cause != test.want || e.ClientStatus != test.code || e.Addr != r.addr ||
				!strings.Contains(e.Detail(), test.message) {
				t.Errorf("%+v", e)
			}
		})
	}
}

// TestTLSFamilies: if one address is untrusted or silent, the next one is tried.
func TestTLSFamilies(t *testing.T) {
	nstest.Require(t)
	p, other := newPKI(t), newPKI(t)
	for name, first := range map[string]connHandler{
		"not trusted": func(_ int, tcp *net.TCPConn, _ *bufio.Reader) {
			_ = tls.Server(tcp, other.config(t, api)).Handshake()
		},
		"silent": func(_ int, _ *net.TCPConn, b *bufio.Reader) { _, _ = io.Copy(io.Discard, b) },
		"no TLS": answersOnce(okResponse),
	} {
		t.Run(name, func(t *testing.T) {
			r4 := startRouter(t, "127.0.0.1:0", first)
			r6 := startTLSRouter(t, fmt.Sprintf("[::1]:%d", r4.addr.Port()), p.config(t, api), answersOverTLS)
			s := tlsSettings(r4, p.trustedCAs())
			s.Addresses, s.ConnectTimeout = append(s.Addresses, r6.addr.Addr()), 500*time.Millisecond
			wantAnswered(t, newClient(t, s), newRequest())
		})
	}
}

// TestCloseEndsHandshakes: Close ends a blocked handshake, and the wait for a free
// handshake slot.
func TestCloseEndsHandshakes(t *testing.T) {
	t.Parallel()
	accepted := make(chan struct{}, maxHandshakes)
	r := startRouter(t, "127.0.0.1:0", func(_ int, _ *net.TCPConn, b *bufio.Reader) {
		_, _ = b.ReadByte()
		accepted <- struct{}{}
		_, _ = io.Copy(io.Discard, b)
	})
	c := newClient(t, tlsSettings(r, newPKI(t).trustedCAs()))
	ended := make(chan *Error)
	const more = 3
	for range maxHandshakes + more {
		go func() {
			_, _, e := doExchange(t, c, newRequest())
			ended <- e
		}()
	}
	for range maxHandshakes {
		<-accepted
	}
	nstest.Await(t, "the others are connected", func() bool { return r.accepted() == maxHandshakes+more })
	c.Close()
	for range maxHandshakes + more {
		if e := <-ended; e == nil || e.Cause != findings.ExchangeStopped {
			t.Fatalf("%v", e)
		}
	}
}

// BenchmarkExchangeTLS is BenchmarkExchange over an idle TLS connection.
func BenchmarkExchangeTLS(b *testing.B) {
	p := newPKI(b)
	r := startTLSRouter(b, "127.0.0.1:0", p.config(b, api), answersOverTLS)
	benchmark(b, newClient(b, tlsSettings(r.testRouter, p.trustedCAs())))
	r.expect(b, 1)
}

// TestKeptConnectionServesOneHost: on each kind of route, a connection that was kept takes the next
// request for the same host, and none for another: unrequested bytes would be its response.
func TestKeptConnectionServesOneHost(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	const other = "app.example.com"
	plain := startRouter(t, "127.0.0.1:0", answersWith(okResponse))
	secure := startTLSRouter(t, "127.0.0.1:0", p.config(t, api, other), answersOverTLS)
	names := map[string]netip.AddrPort{}
	for _, host := range []string{api, other} {
		names[authority(host, plain.addr.Port())] = plain.addr
	}
	overTLS := tlsSettings(secure.testRouter, p.trustedCAs())
	forwarding, tunnelling := (&fakeEgressProxy{names: names}).start(t), (&fakeEgressProxy{}).start(t)
	for _, route := range []struct {
		name     string
		settings Settings
		accepts  *testRouter // the connections of the route
	}{
		{"plain", plainSettings(plain), plain},
		{"TLS", overTLS, secure.testRouter},
		{"a proxy", forwarding.routeThrough(plainSettings(plain), ""), forwarding.testRouter},
		{"a tunnel", tunnelling.routeThrough(overTLS, ""), tunnelling.testRouter},
	} {
		c, before := newClient(t, route.settings), route.accepts.accepted()
		for _, host := range []string{api, other, api, other, other} {
			wantAnswered(t, c, requestFor(host))
		}
		if n := route.accepts.accepted() - before; n != 2 {
			t.Errorf("%s: %d connections for two hosts", route.name, n)
		}
	}
}
