// SPDX-License-Identifier: Apache-2.0

package network_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
)

// strictProxy is a proxy as RFC 9110 has it: CONNECT, or the absolute form, each
// with credentials when there are to be any. It leads every name to one address.
type strictProxy struct {
	authorization string // empty: none are asked for
	targets       map[string]string
}

func (p strictProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if got := r.Header.Get("Proxy-Authorization"); got != p.authorization {
		w.Header().Set("Proxy-Authenticate", "Basic")
		// A reason phrase or a page that echoes what came must not get on.
		http.Error(w, got, http.StatusProxyAuthRequired)
		return
	}
	to, is := p.targets[r.Host]
	switch {
	case !is:
		http.Error(w, "denied", http.StatusForbidden)
	case r.Method == http.MethodConnect:
		p.connect(w, to)
	case r.URL.IsAbs() && r.URL.Host == r.Host:
		p.get(w, r, to)
	default:
		http.Error(w, "not in the absolute form", http.StatusBadRequest)
	}
}

func (p strictProxy) get(w http.ResponseWriter, r *http.Request, to string) {
	onward := &http.Request{Method: r.Method, URL: &url.URL{Scheme: "http", Host: to, Path: r.URL.Path}, Host: r.Host, Header: http.Header{}}
	answer, err := http.DefaultTransport.RoundTrip(onward.WithContext(r.Context()))
	if err != nil {
		http.Error(w, "", http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	w.Header().Set("Location", answer.Header.Get("Location"))
	w.WriteHeader(answer.StatusCode)
}

func (p strictProxy) connect(w http.ResponseWriter, to string) {
	onward, err := net.Dial("tcp", to)
	if err != nil {
		http.Error(w, "", http.StatusBadGateway)
		return
	}
	defer onward.Close()
	client, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	go func() { _, _ = io.Copy(onward, client) }()
	_, _ = io.Copy(client, onward)
}

func hostPort(t *testing.T, s *httptest.Server) string {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// TestEndpoint: endpoints asked through a proxy and directly, in both forms, with
// and without TLS and credentials; and why there is no answer. The child is as bare
// as it is in the field.
func TestEndpoint(t *testing.T) {
	c := startClient(t)
	pages := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "http://unreachable.test/", http.StatusFound)
		case "/missing":
			http.NotFound(w, r)
		case "/endless":
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 1<<16))
			}
		}
	})
	plain, secure := httptest.NewServer(pages), httptest.NewTLSServer(pages)
	silent := startServer(t, func(conn *net.TCPConn, _ []byte) { _, _ = conn.Read(make([]byte, 1)) })
	proxy := strictProxy{targets: map[string]string{
		"plain.test": hostPort(t, plain), "example.com:443": hostPort(t, secure), "silent.test": silent.String(), "other.test:443": hostPort(t, secure),
	}}
	open := httptest.NewServer(proxy)
	proxy.authorization = "Basic dXNlcjpwQHNz"
	locked, lockedTLS := httptest.NewServer(proxy), httptest.NewTLSServer(proxy)
	echo := startServer(t, func(conn *net.TCPConn, request []byte) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(string(request))))
		if err == nil {
			_, _ = io.WriteString(conn, r.Header.Get("Proxy-Authorization")+"\r\n\r\n")
		}
	})
	told := startServer(t, func(conn *net.TCPConn, _ []byte) { _, _ = io.WriteString(conn, "no \xff here\r\n\r\n") })
	for _, s := range []*httptest.Server{plain, secure, open, locked, lockedTLS} {
		s.Config.ErrorLog = nil
		t.Cleanup(s.Close)
	}
	roots := [][]byte{secure.Certificate().Raw}
	addrs := func(of string) []netip.AddrPort { return []netip.AddrPort{netip.MustParseAddrPort(of)} }
	viaOpen, viaLocked, viaTLS := addrs(hostPort(t, open)), addrs(hostPort(t, locked)), addrs(hostPort(t, lockedTLS))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := netip.MustParseAddrPort(free.Addr().String())
	_ = free.Close()
	tests := []struct {
		name string
		q    prober.EndpointRequest
		want prober.EndpointResult
		says string
	}{
		{"absolute form", prober.EndpointRequest{URL: "http://plain.test/", Proxy: "http://proxy.test:3128", Addrs: viaOpen}, prober.EndpointResult{Status: 200}, ""},
		{"a redirect", prober.EndpointRequest{URL: "http://plain.test/moved", Proxy: "http://proxy.test:3128", Addrs: viaOpen}, prober.EndpointResult{Status: 302}, ""},
		{"a body without end", prober.EndpointRequest{URL: "http://plain.test/endless", Addrs: addrs(hostPort(t, plain))}, prober.EndpointResult{Status: 200}, ""},
		{"no page", prober.EndpointRequest{URL: "http://plain.test/missing", Addrs: addrs(hostPort(t, plain))}, prober.EndpointResult{Status: 404}, ""},
		{"CONNECT", prober.EndpointRequest{URL: "https://example.com/", Proxy: "http://proxy.test:3128", Addrs: viaOpen, Roots: roots}, prober.EndpointResult{Status: 200}, ""},
		{"the second address", prober.EndpointRequest{URL: "http://plain.test/", Proxy: "http://proxy.test:3128", Addrs: []netip.AddrPort{nobody, viaOpen[0]}}, prober.EndpointResult{Status: 200}, ""},
		{"credentials", prober.EndpointRequest{URL: "http://plain.test/", Proxy: "http://user:p%40ss@proxy.test:3128", Addrs: viaLocked}, prober.EndpointResult{Status: 200}, ""},
		{"credentials with CONNECT", prober.EndpointRequest{URL: "https://example.com/", Proxy: "http://user:p%40ss@proxy.test:3128", Addrs: viaLocked, Roots: roots}, prober.EndpointResult{Status: 200}, ""},
		{"TLS to the proxy", prober.EndpointRequest{URL: "https://example.com/", Proxy: "https://user:p%40ss@example.com:3128", Addrs: viaTLS, Roots: roots}, prober.EndpointResult{Status: 200}, ""},
		{"wrong credentials", prober.EndpointRequest{URL: "http://plain.test/", Proxy: "http://user:s3cret@proxy.test:3128", Addrs: viaLocked}, prober.EndpointResult{Status: 407}, ""},
		{"wrong credentials with CONNECT", prober.EndpointRequest{URL: "https://example.com/", Proxy: "http://user:s3cret@proxy.test:3128", Addrs: viaLocked, Roots: roots}, prober.EndpointResult{ProxyStatus: 407}, ""},
		{"denied", prober.EndpointRequest{URL: "https://denied.test/", Proxy: "http://proxy.test:3128", Addrs: viaOpen, Roots: roots}, prober.EndpointResult{ProxyStatus: 403}, ""},
		{"not trusted", prober.EndpointRequest{URL: "https://example.com/", Proxy: "http://proxy.test:3128", Addrs: viaOpen}, prober.EndpointResult{}, "leads to none of what is trusted"},
		{"the proxy is not trusted", prober.EndpointRequest{URL: "https://example.com/", Proxy: "https://user:s3cret@example.com:3128", Addrs: viaTLS}, prober.EndpointResult{}, "leads to none of what is trusted"},
		{"another name", prober.EndpointRequest{URL: "https://other.test/", Proxy: "http://proxy.test:3128", Addrs: viaOpen, Roots: roots}, prober.EndpointResult{}, "other.test"},
		{"nobody listens", prober.EndpointRequest{URL: "http://plain.test/", Proxy: "http://user:s3cret@proxy.test:3128", Addrs: addrs(nobody.String())}, prober.EndpointResult{}, "refused"},
		{"no address", prober.EndpointRequest{URL: "http://plain.test/", Proxy: "http://user:s3cret@proxy.test:3128"}, prober.EndpointResult{}, "no address"},
		{"silent", prober.EndpointRequest{URL: "http://silent.test/", Proxy: "http://user:s3cret@proxy.test:3128", Addrs: addrs(silent.String())}, prober.EndpointResult{}, "in time"},
		{"it echoes the credentials", prober.EndpointRequest{URL: "http://plain.test/", Proxy: "http://user:s3cret@proxy.test:3128", Addrs: addrs(echo.String())}, prober.EndpointResult{}, "not one HTTP/1.x answer"},
		{"and are quoted", prober.EndpointRequest{URL: "http://plain.test/", Proxy: "http://%FF:s3cret@proxy.test:3128", Addrs: addrs(told.String())}, prober.EndpointResult{}, "not one HTTP/1.x answer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			limit := testTimeout
			if tt.name == "silent" {
				limit = time.Second
			}
			a, err := c.Query(withTimeout(t, limit), prober.Request{Endpoint: &tt.q})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tt.want, a.Endpoint, cmpopts.IgnoreFields(prober.EndpointResult{}, "LastAddr", "Details", "Total")); diff != "" {
				t.Errorf("(-want +got):\n%s%v", diff, a.Endpoint.Details)
			}
			if got := a.Endpoint.Details.Text(cause.Context{Host: "other.test", TrustedCAs: "what is trusted"}); !strings.Contains(got, tt.says) || (tt.says == "") != (got == "") || strings.Contains(got, "s3cret") {
				t.Errorf("it says %q, want %q", got, tt.says)
			}
			if len(tt.q.Addrs) > 0 && a.Endpoint.LastAddr != tt.q.Addrs[len(tt.q.Addrs)-1] {
				t.Errorf("%v was tried", a.Endpoint.LastAddr)
			}
		})
	}
}
