// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

const proxyName = "proxy.example"

// plainSettings are the settings for a router without TLS.
func plainSettings(r *testRouter) Settings {
	return Settings{Upstream: ingress.Upstream{
		Addresses: []netip.Addr{r.addr.Addr()}, Port: r.addr.Port(), HTTPSPort: 443,
		ConnectTimeout: testTimeout,
	}, MaxConnections: 8 * testIdle}
}

// TestPlainThroughProxy: the proxy resolves the host, which is in the request.
func TestPlainThroughProxy(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	for name, test := range map[string]struct {
		proxy   *fakeEgressProxy
		secret  string
		handler connHandler
		want    findings.ID
		code    int    // for the client
		status  int    // that was relayed
		message string // in the sentence for the operator
	}{
		"open": {handler: answersWith(okResponse), status: 200},
		"Basic": {
			proxy: &fakeEgressProxy{authorization: credentials()}, secret: credentials(),
			handler: answersWith(okResponse), status: 200,
		},
		"by TLS": {proxy: &fakeEgressProxy{tls: p.config(t, proxyName)}, handler: answersWith(okResponse), status: 200},
		"TLS, Basic": {
			proxy:  &fakeEgressProxy{tls: p.config(t, proxyName), authorization: credentials()},
			secret: credentials(), handler: answersWith(okResponse), status: 200,
		},

		"other credentials": {
			proxy: &fakeEgressProxy{authorization: "Basic x"}, secret: credentials(),
			handler: answersWith(okResponse), want: findings.EgressAuth, code: 502, message: "407",
		},
		"none": {
			proxy: &fakeEgressProxy{authorization: "Basic x"}, handler: answersWith(okResponse),
			want: findings.EgressAuth, code: 502, message: "407",
		},
		"unknown name": {
			proxy: &fakeEgressProxy{names: map[string]netip.AddrPort{}}, handler: answersWith(okResponse),
			want: findings.EgressDenied, code: 502, message: "503 (ERR_DNS_FAIL)",
		},
		"not allowed": {
			proxy: &fakeEgressProxy{response: "HTTP/1.1 403 Forbidden\r\nX-Squid-Error: ERR_ACCESS_DENIED " +
				"0\r\nContent-Length: 1000000\r\n\r\n<html>"}, secret: credentials(),
			handler: answersWith(okResponse), want: findings.EgressDenied, code: 502, message: "403 (ERR_ACCESS_DENIED)",
		},
		"reveals the password": {
			proxy: &fakeEgressProxy{response: "HTTP/1.1 403 " + password + "\r\n\r\n"}, secret: credentials(),
			handler: answersWith(okResponse), want: findings.EgressDenied, code: 502, message: "403. ",
		},
		"no HTTP": {
			proxy: &fakeEgressProxy{response: "\r\n"}, handler: answersWith(okResponse),
			want: findings.ResponseMalformed, code: 502, message: "through the egress proxy " + proxyName,
		},
		"router's 404": {handler: answersWith("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"), status: 404},
		"router's 503": {
			handler: answersWith("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"),
			want:    findings.RouteMissing, status: 503, message: "through the egress proxy " + proxyName,
		},
		"finds the API VIP": {
			handler: answersWith(
				"HTTP/1.1 502 Bad Gateway\r\nProxy-Status: http01-proxyd; error=proxy_loop_detected\r\nContent-Length: 0\r\n\r\n"),
			want: findings.EgressLoop, status: 502, message: "upstream.scheme: https",
		},
		"a name of its own": {
			proxy: &fakeEgressProxy{tls: p.config(t, "other.example")}, handler: answersWith(okResponse),
			want: findings.EgressTLS, code: 502, message: `"other.example"`,
		},
		"not trusted": {
			proxy: &fakeEgressProxy{tls: newPKI(t).config(t, proxyName)}, handler: answersWith(okResponse),
			want: findings.EgressTLS, code: 502, message: "egressProxy.trustedCA",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRouter(t, "127.0.0.1:0", test.handler)
			s := plainSettings(r)
			at := authority(api, s.Port)
			proxy := test.proxy
			if proxy == nil {
				proxy = &fakeEgressProxy{}
			}
			if proxy.names == nil {
				proxy.names = map[string]netip.AddrPort{at: r.addr}
			}
			proxy.start(t)
			s = proxy.routeThrough(s, test.secret)
			s.Egress.ProxyCAs = ingress.CABundle{Roots: [][]byte{p.root.Raw}}
			c := newClient(t, s)
			for range 2 {
				status, body, e := doExchange(t, c, newRequest())
				checkSecretHidden(t, s, c, e)
				if test.want == "" {
					if e != nil || status != test.status || status == 200 && body != "token.key" {
						t.Fatalf("%d %q, %v", status, body, e)
					}
					continue
				}
				code := 0
				if e != nil {
					code = e.ClientStatus
					checkSecretHidden(t, e.Detail(), e.Error(), e.Err)
				}
				if e == nil || e.Cause != test.want || status != test.status || code != test.code || e.Addr != r.addr ||
					!strings.Contains(e.Detail(), test.message) {
					t.Errorf("%d, %v: %+v", status, e, e)
				}
			}
			want := []string{"GET http://" + at + path, "GET http://" + at + path}
			if test.want == findings.EgressTLS {
				want = nil
			}
			if diff := cmp.Diff(want, proxy.requestLines()); diff != "" {
				t.Errorf("requests to the proxy: %s", diff)
			}
			if test.status == 200 && proxy.accepted() != 1 {
				t.Errorf("the proxy has seen %d connections", proxy.accepted())
			}
		})
	}
}

// TestTLSThroughProxy: the proxy receives the ingress's address, and the request
// goes through the tunnel.
func TestTLSThroughProxy(t *testing.T) {
	t.Parallel()
	p, man := newPKI(t), newPKI(t)
	for name, test := range map[string]struct {
		proxy   *fakeEgressProxy
		secret  string
		config  *tls.Config // of the router
		handler tlsHandler
		roots   [][]byte // Egress.AdditionalCAs
		own     [][]byte // Egress.ProxyCAs
		want    findings.ID
		code    int
		message string
	}{
		"open":   {},
		"Basic":  {proxy: &fakeEgressProxy{authorization: credentials()}, secret: credentials()},
		"by TLS": {proxy: &fakeEgressProxy{tls: p.config(t, proxyName)}, own: [][]byte{p.root.Raw}},
		"TLS, Basic": {
			proxy:  &fakeEgressProxy{tls: man.config(t, proxyName), authorization: credentials()},
			secret: credentials(), own: [][]byte{man.root.Raw},
		},
		"looks into it": {proxy: &fakeEgressProxy{interception: man.config(t, api)}, roots: [][]byte{man.root.Raw}},
		"by TLS, looks into it": {
			proxy: &fakeEgressProxy{tls: man.config(t, proxyName), interception: man.config(t, api)},
			roots: [][]byte{man.root.Raw}, own: [][]byte{man.root.Raw},
		},

		// Squid does so when it rejects the router (ERR_CANNOT_FORWARD).
		"looks into it, answers": {
			proxy: &fakeEgressProxy{interception: man.config(t, api)}, roots: [][]byte{man.root.Raw},
			handler: func(_ int, conn *tls.Conn, b *bufio.Reader) {
				readRequest(b)
				_, _ = io.WriteString(conn,
					"HTTP/1.1 503 Service Unavailable\r\nX-Squid-Error: ERR_CANNOT_FORWARD 0\r\nContent-Length: 6\r\n\r\n<html>")
			},
			want: findings.EgressDenied, code: 502, message: "503 (ERR_CANNOT_FORWARD)",
		},
		// An ingress may send the same, which cannot be distinguished. The
		// remediation contains this case.
		"ingress with Proxy-Status": {
			handler: func(_ int, conn *tls.Conn, b *bufio.Reader) {
				readRequest(b)
				_, _ = io.WriteString(conn,
					"HTTP/1.1 503 Service Unavailable\r\nProxy-Status: router; "+
						"error=destination_unavailable\r\nContent-Length: 0\r\n\r\n")
			},
			want: findings.EgressDenied, code: 502, message: "The ingress itself must not set an error in Proxy-Status",
		},
		"looks into it, not trusted": {
			proxy: &fakeEgressProxy{interception: man.config(t, api)},
			want:  findings.IngressTLSUntrusted, code: 502, message: "egressProxy.trustedCA",
		},
		"of another root": {
			config: man.config(t, api), want: findings.IngressTLSUntrusted, code: 502,
			message: "through the egress proxy " + proxyName,
		},
		"of another name": {
			config: p.config(t, "x.example"), want: findings.IngressTLSName, code: 502,
			message: `"x.example"`,
		},
		"other credentials": {
			proxy: &fakeEgressProxy{authorization: "Basic x"}, secret: credentials(),
			want: findings.EgressAuth, code: 502, message: "407",
		},
		"not allowed": {
			proxy: &fakeEgressProxy{response: "HTTP/1.1 403 Forbidden\r\n\r\n"}, secret: credentials(),
			want: findings.EgressDenied, code: 502, message: "403",
		},
		"no proxy": {
			proxy: &fakeEgressProxy{response: "220 mail ESMTP\r\n"}, want: findings.EgressUnreachable,
			code: 502, message: "bad status line",
		},
		"proxy untrusted": {
			proxy: &fakeEgressProxy{tls: man.config(t, proxyName)}, want: findings.EgressTLS, code: 502,
			message: "Lab Issuing CA",
		},
		// The CAs of one do not apply to the other.
		"proxy of the ingress's root": {
			proxy: &fakeEgressProxy{tls: p.config(t, proxyName)}, roots: [][]byte{p.root.Raw},
			want: findings.EgressTLS, code: 502, message: "Lab Issuing CA",
		},
		"ingress of the proxy's root": {
			proxy: &fakeEgressProxy{tls: man.config(t, proxyName)}, own: [][]byte{man.root.Raw}, config: man.config(t, api),
			want: findings.IngressTLSUntrusted, code: 502, message: "Lab Issuing CA",
		},
		"expects no TLS": {
			proxy: &fakeEgressProxy{tls: &tls.Config{}}, want: findings.EgressTLS, code: 502,
			message: "TLS to the egress proxy",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.config == nil {
				test.config = p.config(t, api)
			}
			answers := test.handler != nil
			if !answers {
				test.handler = answersOverTLS
			}
			r := startTLSRouter(t, "127.0.0.1:0", test.config, test.handler)
			proxy := test.proxy
			if proxy == nil {
				proxy = &fakeEgressProxy{}
			}
			proxy.start(t)
			s := proxy.routeThrough(tlsSettings(r.testRouter, p.trustedCAs()), test.secret)
			s.Egress.AdditionalCAs.Roots, s.Egress.ProxyCAs.Roots = test.roots, test.own
			c := newClient(t, s)
			if test.want == "" {
				wantAnswered(t, c, newRequest())
				wantAnswered(t, c, newRequest())
				want := []string{"CONNECT " + r.addr.String()}
				if diff := cmp.Diff(want, proxy.requestLines()); diff != "" {
					t.Errorf("requests to the proxy: %s", diff)
				}
				if _, asked := r.names.Load(api); !asked && proxy.interception == nil {
					t.Error("the SNI is not the request's host")
				}
				return
			}
			_, _, e := doExchange(t, c, newRequest())
			if e == nil || e.Cause != test.want || e.ClientStatus != test.code || e.Addr != r.addr ||
				!strings.Contains(e.Detail(), test.message) {
				t.Fatalf("%v: %+v", e, e)
			}
			checkSecretHidden(t, s, c, e, e.Detail(), e.Error(), e.Err)
			if n := r.bytes.Load(); n > 0 && proxy.interception == nil && !answers {
				t.Errorf("the router was sent %d bytes of a request", n)
			}
		})
	}
}

// TestProxyDoesNotServe covers the failures of a connection to the proxy.
func TestProxyDoesNotServe(t *testing.T) {
	t.Parallel()
	gone := startRouter(t, "127.0.0.1:0", nil)
	gone.close()
	silent := startRouter(t, "127.0.0.1:0", func(_ int, _ *net.TCPConn, b *bufio.Reader) { _, _ = io.Copy(io.Discard, b) })
	closes := startRouter(t, "127.0.0.1:0", func(_ int, _ *net.TCPConn, b *bufio.Reader) { readRequest(b) })
	p := newPKI(t)
	for name, test := range map[string]struct {
		addrs   []netip.AddrPort
		secure  bool // the ingress uses TLS
		code    int
		message string
	}{
		"refuses":            {[]netip.AddrPort{gone.addr}, false, 502, "connection refused"},
		"refuses, TLS":       {[]netip.AddrPort{gone.addr, gone.addr}, true, 502, "connection refused"},
		"closes":             {[]netip.AddrPort{closes.addr}, false, 502, "the peer closed the connection"},
		"closes, TLS":        {[]netip.AddrPort{closes.addr}, true, 502, "the peer closed the connection"},
		"silent, TLS":        {[]netip.AddrPort{silent.addr}, true, 504, "timeout"},
		"no address":         {nil, true, 502, "no address"},
		"no address, either": {nil, false, 502, "no address"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := netip.MustParseAddrPort("127.0.0.1:1")
			s := Settings{Upstream: ingress.Upstream{
				Addresses: []netip.Addr{at.Addr()}, Port: 1, HTTPSPort: 1, TLS: test.secure,
				ConnectTimeout: testTimeout,
			}, TrustedCAs: p.trustedCAs()}
			if test.code == 504 {
				s.ConnectTimeout = 200 * time.Millisecond
			}
			s.Egress.Routes = []ingress.EgressRoute{{Ingress: at, Proxy: ingress.EgressProxy{
				Name:  proxyName,
				Addrs: test.addrs,
			}}}
			c := newClient(t, s)
			_, _, e := doExchange(t, c, newRequest())
			if e == nil || e.Cause != findings.EgressUnreachable || e.ClientStatus != test.code || !strings.Contains(e.Detail(),
				test.message) || !strings.Contains(e.Detail(), proxyName) {
				t.Errorf("%v: %+v", e, e)
			}
			if test.secure || !strings.HasPrefix(name, "closes") {
				probed := c.Probe(t.Context())
				if len(probed) != 1 || probed[0].Failure == nil ||
					findings.ID(probed[0].Failure.Cause) != findings.EgressUnreachable {
					t.Errorf("the probe finds %+v", probed)
				}
			}
		})
	}
}

// TestSecondAddressOfProxy: if one address of a proxy fails, the next one is used.
func TestSecondAddressOfProxy(t *testing.T) {
	t.Parallel()
	gone := startRouter(t, "127.0.0.1:0", nil)
	gone.close()
	p := newPKI(t)
	r := startTLSRouter(t, "127.0.0.1:0", p.config(t, api), answersOverTLS)
	proxy := (&fakeEgressProxy{}).start(t)
	s := proxy.routeThrough(tlsSettings(r.testRouter, p.trustedCAs()), "")
	for i := range s.Egress.Routes {
		s.Egress.Routes[i].Proxy.Addrs = []netip.AddrPort{gone.addr, proxy.addr}
	}
	c := newClient(t, s)
	wantAnswered(t, c, newRequest())
	if probed := c.Probe(t.Context()); len(probed) != 1 || probed[0].Failure != nil {
		t.Errorf("the probe finds %+v", probed)
	}
}

// TestRedirectThroughProxy: plain HTTP and TLS can use different routes, through a
// proxy or direct.
func TestRedirectThroughProxy(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	for name, directly := range map[string]bool{"through": false, "directly": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secure := startTLSRouter(t, "127.0.0.1:0", p.config(t, api), answersOverTLS)
			plain := startRouter(t, "127.0.0.1:0", answersWith(redirectToSame))
			s := plainSettings(plain)
			s.HTTPSPort, s.FollowRedirects, s.TrustedCAs = secure.addr.Port(), true, p.trustedCAs()
			at := authority(api, s.Port)
			proxy := (&fakeEgressProxy{names: map[string]netip.AddrPort{at: plain.addr}}).start(t)
			s = proxy.routeThrough(s, "")
			want := []string{"GET http://" + at + path, "CONNECT " + secure.addr.String()}
			if directly {
				s.Egress.Routes, want = s.Egress.Routes[:1], want[:1]
			}
			wantAnswered(t, newClient(t, s), newRequest())
			if diff := cmp.Diff(want, proxy.requestLines()); diff != "" {
				t.Errorf("requests to the proxy: %s", diff)
			}
		})
	}
}

// TestNothingElseIsDialledThroughProxy: with a proxy on the route, only it and the
// ingress are dialled. The proxy gets only the ingress's address, or
// the validated host name. No redirect and no Host changes that.
func TestNothingElseIsDialledThroughProxy(t *testing.T) {
	nstest.Require(t)
	p := newPKI(t)
	evil := startRouter(t, "127.0.0.66:0", answersWith(okResponse))
	leads := []string{
		"https://" + evil.addr.String() + path, "http://" + evil.addr.String() + path, "https://api.example.com@" +
			evil.addr.String() + path,
		"https://169.254.169.254/latest/meta-data", "https://127.0.0.66" + path, "https://" + api + ":6443" + path,
		"https://" + api + path,
	}
	for _, lead := range leads {
		for _, host := range []string{api, "127.0.0.66", "localhost", "[::1]", ""} {
			for _, plainly := range []bool{true, false} { // plain HTTP goes through the proxy too
				d := newRedirectingIngress(t, p, redirectTo+lead+"\r\n\r\n", redirectTo+lead+"\r\n\r\n")
				s := d.settings(p.trustedCAs())
				at := authority(host, s.Port)
				proxy := (&fakeEgressProxy{names: map[string]netip.AddrPort{at: d.http.addr}}).start(t)
				s = proxy.routeThrough(s, "")
				if !plainly {
					s.Egress.Routes = s.Egress.Routes[1:]
				}
				c := newClient(t, s)
				seen := recordDials(c)
				_, _, _ = doExchange(t, c, requestFor(host))
				seen.check(t, d.http.addr, proxy.addr)
				for _, line := range proxy.requestLines() {
					if line != "GET http://"+at+path && line != "CONNECT "+d.https.addr.String() {
						t.Errorf("the proxy received %s, with a redirect to %s for %s", line, lead, host)
					}
				}
				if plainly && host != "" && len(proxy.requestLines()) == 0 {
					t.Errorf("the proxy received nothing, with a redirect to %s for %s", lead, host)
				}
			}
		}
	}
	if n := evil.accepted(); n != 0 {
		t.Errorf("%d connections to another address than the ingress's", n)
	}
}
