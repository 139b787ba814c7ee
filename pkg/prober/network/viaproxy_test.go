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

	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
)

const challenge = "/.well-known/acme-challenge/token"

// startRouter is a server by TLS, whose certificate is for example.com, and one that leads
// to it. What it was told of its client goes into the answer.
func startRouter(t *testing.T) (plain, secure netip.AddrPort, own *x509.Certificate) {
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

// TestViaProxy: the ingress is asked by the gate's own means, in the child that is as
// bare as the gate.
func TestViaProxy(t *testing.T) {
	c := startClient(t)
	plain, secure, own := startRouter(t)
	refusing := refusingProxy(t)
	trusts := func(about string, roots ...[]byte) *protocol.CABundle {
		return &protocol.CABundle{Roots: roots, Description: about}
	}
	good := prober.FetchResult{Status: 200, ContentType: "text/plain; charset=utf-8", Body: []byte("192.0.2.10 https"), Length: 16, UpstreamAddr: secure}
	for name, tt := range map[string]struct {
		host   string
		change func(*protocol.Configure)
		trust  *protocol.CABundle
		egress *protocol.EgressRoutes
		want   prober.FetchResult
		detail string
	}{
		"a redirect that is followed": {trust: trusts("the CA", own.Raw), want: good},
		"one that is not": {
			trust: trusts("the CA", own.Raw), change: func(c *protocol.Configure) { c.FollowRedirects = false },
			want: prober.FetchResult{Status: 302, Location: "https://example.com" + challenge, UpstreamAddr: plain, ResponseCause: "redirect-to-https"},
		},
		"another CA": {
			trust: trusts("the CA of /ca.crt"), want: prober.FetchResult{UpstreamAddr: secure, Cause: "tls-untrusted"},
			detail: "leads to none of the CA of /ca.crt",
		},
		"another name": {
			trust: trusts("the CA", own.Raw), host: "api.example.org", want: prober.FetchResult{UpstreamAddr: secure, Cause: "tls-name"},
			detail: `and not for "api.example.org"`,
		},
		"TLS, and a redirect elsewhere": {
			trust: trusts("the CA", own.Raw), host: "elsewhere.example.com",
			change: func(c *protocol.Configure) { c.TLS, c.VerifyNames = true, []string{"example.com"} },
			want:   prober.FetchResult{Status: 302, Location: "https://example.com/other", UpstreamAddr: secure, ResponseCause: "redirect-elsewhere"},
		},
		"a proxy that refuses": {
			trust: trusts("the CA", own.Raw), change: func(c *protocol.Configure) { c.TLS = true },
			egress: &protocol.EgressRoutes{Routes: []protocol.EgressRoute{{Ingress: secure, Proxy: protocol.EgressProxy{
				Name: "proxy.example.com", Addrs: []netip.AddrPort{refusing}, Authorization: "Basic c2VjcmV0",
			}}}},
			want:   prober.FetchResult{UpstreamAddr: secure, Cause: "egress-auth", ViaEgressProxy: true},
			detail: "it answers 407 Proxy Authentication Required",
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := proxyFetchRequest(plain, secure, tt.trust, tt.egress)
			if tt.host != "" {
				q.Host = tt.host
			}
			if tt.change != nil {
				tt.change(&q.ViaProxy.Configure)
			}
			a, err := c.Query(withTimeout(t, testTimeout), prober.Request{Fetch: q})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(a.Fetch.Details.Text(a.Fetch.Context), tt.detail) || a.Fetch.Total <= 0 {
				t.Errorf("after %v: %s", a.Fetch.Total, a.Fetch.Details)
			}
			ignored := cmpopts.IgnoreFields(prober.FetchResult{}, "FirstByte", "Total", "Date", "Details", "Context")
			same := cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })
			if diff := cmp.Diff(tt.want, *a.Fetch, ignored, same, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(prober.FetchResult{}, bodyUnless(tt.want)...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// bodyUnless leaves out the page of a redirect, which is the server's.
func bodyUnless(want prober.FetchResult) []string {
	if want.Status == http.StatusFound {
		return []string{"Body", "Length", "ContentType"}
	}
	return nil
}

func proxyFetchRequest(plain, secure netip.AddrPort, trust *protocol.CABundle, egress *protocol.EgressRoutes) *prober.FetchRequest {
	return &prober.FetchRequest{
		Addr: plain, Host: "example.com", Path: challenge, UserAgent: "test",
		ViaProxy: &prober.ProxyExchange{
			Client: netip.MustParseAddrPort("192.0.2.10:40000"), VIP: netip.MustParseAddrPort("192.0.2.5:80"),
			Configure: protocol.Configure{
				Ingress: []netip.Addr{plain.Addr()}, Port: plain.Port(), HTTPSPort: secure.Port(), FollowRedirects: true, ConnectTimeout: testTimeout,
			},
			Trust: trust, Egress: egress,
		},
	}
}

// refusingProxy answers with the credentials that it was sent.
func refusingProxy(t *testing.T) netip.AddrPort {
	t.Helper()
	return startServer(t, func(conn *net.TCPConn, _ []byte) {
		_, _ = io.WriteString(conn, "HTTP/1.1 407 c2VjcmV0 is wrong\r\nContent-Length: 0\r\n\r\n")
	})
}

// TestViaProxyTimeout: who is silent takes the question's time and no more, and is named
// for it.
func TestViaProxyTimeout(t *testing.T) {
	c := startClient(t)
	silent := startServer(t, func(conn *net.TCPConn, _ []byte) { _, _ = conn.Read(make([]byte, 1)) })
	q := proxyFetchRequest(silent, silent, &protocol.CABundle{}, nil)
	q.ViaProxy.Configure.TLS = true
	const limit = 5 * time.Second
	a, err := c.Query(withTimeout(t, limit), prober.Request{Fetch: q})
	if err != nil {
		t.Fatal(err)
	}
	if a.Fetch.Cause != "timeout-answer" {
		t.Errorf("in %v: %+v", limit, a.Fetch)
	}
}
