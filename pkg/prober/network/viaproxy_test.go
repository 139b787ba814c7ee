// SPDX-License-Identifier: Apache-2.0

package network_test

import (
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

const challenge = "/.well-known/acme-challenge/token"

// startRouter starts a TLS server with a certificate for example.com, and a server that
// redirects to it. The response contains the X-Forwarded fields.
func startRouter(t *testing.T) (plain, secure netip.AddrPort, certificate *x509.Certificate) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.Host, "elsewhere.example.com") {
			http.Redirect(w, r, "https://example.com/other", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, r.Header.Get("X-Forwarded-For")+" "+r.Header.Get("X-Forwarded-Proto"))
	}))
	s.StartTLS()
	t.Cleanup(s.Close)
	secure = netip.MustParseAddrPort(s.Listener.Addr().String())
	leads := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://"+r.Host+r.URL.Path, http.StatusFound)
	}))
	t.Cleanup(leads.Close)
	return netip.MustParseAddrPort(leads.Listener.Addr().String()), secure, s.Certificate()
}

// TestViaProxy requests pages from the ingress with the proxy's own code, in a child that
// is confined as the proxy is.
func TestViaProxy(t *testing.T) {
	c := startClient(t)
	plain, secure, certificate := startRouter(t)
	refusing := refusingProxy(t)
	trusts := func(description string, roots ...[]byte) *ingress.CABundle {
		return &ingress.CABundle{Roots: roots, Description: description}
	}
	good := protocol.FetchResult{
		Status: 200, ContentType: "text/plain; charset=utf-8", Body: []byte("192.0.2.10 https"),
		Length: 16, UpstreamAddr: secure,
	}
	for name, tt := range map[string]struct {
		host   string
		change func(*ingress.Upstream)
		trust  *ingress.CABundle
		egress *ingress.Egress
		want   protocol.FetchResult
		detail string
	}{
		"a redirect that is followed": {trust: trusts("the CA", certificate.Raw), want: good},
		"one that is not": {
			trust: trusts("the CA", certificate.Raw), change: func(c *ingress.Upstream) { c.FollowRedirects = false },
			want: protocol.FetchResult{
				Status: 302, Location: "https://example.com" + challenge, UpstreamAddr: plain,
				ResponseCause: "route-redirects-https",
			},
		},
		"another CA": {
			trust: trusts("the CA of /ca.crt"), want: protocol.FetchResult{UpstreamAddr: secure, Cause: "ingress-tls-untrusted"},
			detail: "is not signed by a trusted CA; trusted: the CA of /ca.crt",
		},
		"another name": {
			trust: trusts("the CA", certificate.Raw), host: "api.example.org", want: protocol.FetchResult{
				UpstreamAddr: secure,
				Cause:        "ingress-tls-name",
			},
			detail: `and not for "api.example.org"`,
		},
		"TLS, and a redirect elsewhere": {
			trust: trusts("the CA", certificate.Raw), host: "elsewhere.example.com",
			change: func(c *ingress.Upstream) { c.TLS, c.VerifyNames = true, []string{"example.com"} },
			want: protocol.FetchResult{
				Status: 302, Location: "https://example.com/other", UpstreamAddr: secure,
				ResponseCause: "route-redirects-elsewhere",
			},
		},
		"a proxy that refuses": {
			trust: trusts("the CA", certificate.Raw), change: func(c *ingress.Upstream) { c.TLS = true },
			egress: &ingress.Egress{Routes: []ingress.EgressRoute{{Ingress: secure, Proxy: ingress.EgressProxy{
				Name: "proxy.example.com", Addrs: []netip.AddrPort{refusing}, Authorization: ingress.NewSecret("Basic c2VjcmV0"),
			}}}},
			want:   protocol.FetchResult{UpstreamAddr: secure, Cause: "egress-auth", ViaEgressProxy: true},
			detail: "it answers 407",
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := proxyFetchRequest(plain, secure, tt.trust, tt.egress)
			if tt.host != "" {
				q.Host = tt.host
			}
			if tt.change != nil {
				tt.change(&q.ViaProxy.Upstream)
			}
			a, err := c.Query(withTimeout(t, testTimeout), protocol.Request{Fetch: q})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(a.Fetch.Details.Text(a.Fetch.Context), tt.detail) || a.Fetch.Total <= 0 {
				t.Errorf("after %v: %s", a.Fetch.Total, a.Fetch.Details)
			}
			ignored := cmpopts.IgnoreFields(protocol.FetchResult{}, "FirstByte", "Total", "Details", "Context")
			same := cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })
			if diff := cmp.Diff(tt.want, *a.Fetch, ignored, same, cmpopts.EquateEmpty(),
				cmpopts.IgnoreFields(protocol.FetchResult{}, bodyUnless(tt.want)...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// bodyUnless leaves out the page of a redirect, which is the server's.
func bodyUnless(want protocol.FetchResult) []string {
	if want.Status == http.StatusFound {
		return []string{"Body", "Length", "ContentType"}
	}
	return nil
}

func proxyFetchRequest(plain, secure netip.AddrPort, trust *ingress.CABundle,
	egress *ingress.Egress,
) *protocol.FetchRequest {
	return &protocol.FetchRequest{
		Addr: plain, Host: "example.com", Path: challenge, UserAgent: "test",
		ViaProxy: &protocol.ProxyExchange{
			Client: netip.MustParseAddrPort("192.0.2.10:40000"), VIP: netip.MustParseAddrPort("192.0.2.5:80"),
			Upstream: ingress.Upstream{
				Addresses: []netip.Addr{plain.Addr()}, Port: plain.Port(), HTTPSPort: secure.Port(), FollowRedirects: true,
				ConnectTimeout: testTimeout, Timeout: testTimeout,
			},
			CAs: trust, Egress: egress,
		},
	}
}

// refusingProxy answers with the credentials that it received.
func refusingProxy(t *testing.T) netip.AddrPort {
	t.Helper()
	return startServer(t, func(conn *net.TCPConn, _ []byte) {
		_, _ = io.WriteString(conn, "HTTP/1.1 407 c2VjcmV0 is wrong\r\nContent-Length: 0\r\n\r\n")
	})
}

// TestViaProxyTimeout: a silent server takes the time of the request and no more, and the
// cause names it.
func TestViaProxyTimeout(t *testing.T) {
	c := startClient(t)
	silent := startServer(t, func(conn *net.TCPConn, _ []byte) { _, _ = conn.Read(make([]byte, 1)) })
	q := proxyFetchRequest(silent, silent, &ingress.CABundle{}, nil)
	q.ViaProxy.Upstream.TLS = true
	const limit = 5 * time.Second
	a, err := c.Query(withTimeout(t, limit), protocol.Request{Fetch: q})
	if err != nil {
		t.Fatal(err)
	}
	if a.Fetch.Cause != "ingress-no-response" {
		t.Errorf("in %v: %+v", limit, a.Fetch)
	}
}
