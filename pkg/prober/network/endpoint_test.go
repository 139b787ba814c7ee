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
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// strictProxy is a proxy as in RFC 9110: it takes CONNECT or the absolute form, each with
// credentials if required. It connects every name to one address.
type strictProxy struct {
	authorization string // empty: not required
	targets       map[string]string
}

func (p strictProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if got := r.Header.Get("Proxy-Authorization"); got != p.authorization {
		w.Header().Set("Proxy-Authenticate", "Basic")
		// A reason phrase or a page that echoes the credentials must not be reported.
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
	onward := &http.Request{
		Method: r.Method, URL: &url.URL{Scheme: "http", Host: to, Path: r.URL.Path}, Host: r.Host,
		Header: http.Header{},
	}
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

// TestEndpoint requests endpoints through a proxy and directly, in both forms, with and
// without TLS and credentials, and compares the reasons without an answer. The child is
// confined.
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
		"plain.test": hostPort(t, plain), "example.com:443": hostPort(t, secure), "silent.test": silent.String(),
		"other.test:443": hostPort(t, secure),
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
	quotes := startServer(t, func(conn *net.TCPConn, _ []byte) { _, _ = io.WriteString(conn, "no \xff here\r\n\r\n") })
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
		name     string
		q        protocol.EndpointRequest
		want     protocol.EndpointResult
		sentence string
	}{
		{"absolute form", protocol.EndpointRequest{
			URL: "http://plain.test/", Proxy: "http://proxy.test:3128",
			Addrs: viaOpen,
		}, protocol.EndpointResult{Status: 200}, ""},
		{"a redirect", protocol.EndpointRequest{
			URL: "http://plain.test/moved", Proxy: "http://proxy.test:3128",
			Addrs: viaOpen,
		}, protocol.EndpointResult{Status: 302}, ""},
		{
			"a body without end",
			protocol.EndpointRequest{URL: "http://plain.test/endless", Addrs: addrs(hostPort(t, plain))},
			protocol.EndpointResult{Status: 200},
			"",
		},
		{
			"no page",
			protocol.EndpointRequest{URL: "http://plain.test/missing", Addrs: addrs(hostPort(t, plain))},
			protocol.EndpointResult{Status: 404},
			"",
		},
		{"CONNECT", protocol.EndpointRequest{
			URL: "https://example.com/", Proxy: "http://proxy.test:3128", Addrs: viaOpen,
			Roots: roots,
		}, protocol.EndpointResult{Status: 200}, ""},
		{"the second address", protocol.EndpointRequest{
			URL: "http://plain.test/", Proxy: "http://proxy.test:3128",
			Addrs: []netip.AddrPort{nobody, viaOpen[0]},
		}, protocol.EndpointResult{Status: 200}, ""},
		{"credentials", protocol.EndpointRequest{
			URL: "http://plain.test/", Proxy: "http://user:p%40ss@proxy.test:3128",
			Addrs: viaLocked,
		}, protocol.EndpointResult{Status: 200}, ""},
		{
			"credentials with CONNECT",
			protocol.EndpointRequest{
				URL:   "https://example.com/",
				Proxy: "http://user:p%40ss@proxy.test:3128", Addrs: viaLocked, Roots: roots,
			},
			protocol.EndpointResult{Status: 200},
			"",
		},
		{
			"TLS to the proxy",
			protocol.EndpointRequest{
				URL:   "https://example.com/",
				Proxy: "https://user:p%40ss@example.com:3128", Addrs: viaTLS, Roots: roots,
			},
			protocol.EndpointResult{Status: 200},
			"",
		},
		{"wrong credentials", protocol.EndpointRequest{
			URL: "http://plain.test/", Proxy: "http://user:s3cret@proxy.test:3128",
			Addrs: viaLocked,
		}, protocol.EndpointResult{Status: 407}, ""},
		{
			"wrong credentials with CONNECT",
			protocol.EndpointRequest{
				URL:   "https://example.com/",
				Proxy: "http://user:s3cret@proxy.test:3128", Addrs: viaLocked, Roots: roots,
			},
			protocol.EndpointResult{ProxyStatus: 407},
			"",
		},
		{"denied", protocol.EndpointRequest{
			URL: "https://denied.test/", Proxy: "http://proxy.test:3128", Addrs: viaOpen,
			Roots: roots,
		}, protocol.EndpointResult{ProxyStatus: 403}, ""},
		{"not trusted", protocol.EndpointRequest{
			URL: "https://example.com/", Proxy: "http://proxy.test:3128",
			Addrs: viaOpen,
		}, protocol.EndpointResult{}, "is not signed by a trusted CA; trusted: what is trusted"},
		{
			"the proxy is not trusted",
			protocol.EndpointRequest{
				URL:   "https://example.com/",
				Proxy: "https://user:s3cret@example.com:3128", Addrs: viaTLS,
			},
			protocol.EndpointResult{},
			"is not signed by a trusted CA; trusted: what is trusted",
		},
		{"another name", protocol.EndpointRequest{
			URL: "https://other.test/", Proxy: "http://proxy.test:3128", Addrs: viaOpen,
			Roots: roots,
		}, protocol.EndpointResult{}, "other.test"},
		{"nobody listens", protocol.EndpointRequest{
			URL: "http://plain.test/", Proxy: "http://user:s3cret@proxy.test:3128",
			Addrs: addrs(nobody.String()),
		}, protocol.EndpointResult{}, "refused"},
		{"no address is known", protocol.EndpointRequest{
			URL:   "http://plain.test/",
			Proxy: "http://user:s3cret@proxy.test:3128",
		}, protocol.EndpointResult{}, "no address is known"},
		{"silent", protocol.EndpointRequest{
			URL: "http://silent.test/", Proxy: "http://user:s3cret@proxy.test:3128",
			Addrs: addrs(silent.String()),
		}, protocol.EndpointResult{}, "in time"},
		{
			"it echoes the credentials",
			protocol.EndpointRequest{
				URL:   "http://plain.test/",
				Proxy: "http://user:s3cret@proxy.test:3128", Addrs: addrs(echo.String()),
			},
			protocol.EndpointResult{},
			"not HTTP/1.x",
		},
		{"and are quoted", protocol.EndpointRequest{
			URL: "http://plain.test/", Proxy: "http://%FF:s3cret@proxy.test:3128",
			Addrs: addrs(quotes.String()),
		}, protocol.EndpointResult{}, "not HTTP/1.x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			limit := testTimeout
			if tt.name == "silent" {
				limit = time.Second
			}
			a, err := c.Query(withTimeout(t, limit), protocol.Request{Endpoint: &tt.q})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tt.want, a.Endpoint, cmpopts.IgnoreFields(protocol.EndpointResult{}, "LastAddr", "Details",
				"Total")); diff != "" {
				t.Errorf("(-want +got):\n%s%v", diff, a.Endpoint.Details)
			}
			if got := a.Endpoint.Details.Text(cause.Context{
				Host:       "other.test",
				TrustedCAs: "what is trusted",
			}); !strings.Contains(got, tt.sentence) || (tt.sentence == "") != (got == "") ||
				strings.Contains(got, "s3cret") {
				t.Errorf("sentence %q, want %q", got, tt.sentence)
			}
			if len(tt.q.Addrs) > 0 && a.Endpoint.LastAddr != tt.q.Addrs[len(tt.q.Addrs)-1] {
				t.Errorf("%v was tried", a.Endpoint.LastAddr)
			}
		})
	}
}
