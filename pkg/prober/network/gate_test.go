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

// router is a server by TLS, whose certificate is for example.com, and one that leads
// to it. What it was told of its client goes into the answer.
func router(t *testing.T) (plain, secure netip.AddrPort, own *x509.Certificate) {
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

// TestAsGate: the ingress is asked by the gate's own means, in the child that is as
// bare as the gate.
func TestAsGate(t *testing.T) {
	c := client(t)
	plain, secure, own := router(t)
	refusing := refusingProxy(t)
	trusts := func(about string, roots ...[]byte) *protocol.Trust {
		return &protocol.Trust{Roots: roots, About: about}
	}
	good := prober.Fetch{Status: 200, ContentType: "text/plain; charset=utf-8", Body: []byte("192.0.2.10 https"), Length: 16, At: secure}
	for name, tt := range map[string]struct {
		host   string
		change func(*protocol.Configure)
		trust  *protocol.Trust
		egress *protocol.Egress
		want   prober.Fetch
		detail string
	}{
		"a redirect that is followed": {trust: trusts("the CA", own.Raw), want: good},
		"one that is not": {
			trust: trusts("the CA", own.Raw), change: func(c *protocol.Configure) { c.FollowRedirects = false },
			want: prober.Fetch{Status: 302, Location: "https://example.com" + challenge, At: plain, Verdict: "redirect-to-https"},
		},
		"another CA": {
			trust: trusts("the CA of /ca.crt"), want: prober.Fetch{At: secure, Cause: "tls-untrusted"},
			detail: "leads to none of the CA of /ca.crt",
		},
		"another name": {
			trust: trusts("the CA", own.Raw), host: "api.example.org", want: prober.Fetch{At: secure, Cause: "tls-name"},
			detail: `and not for "api.example.org"`,
		},
		"TLS, and a redirect elsewhere": {
			trust: trusts("the CA", own.Raw), host: "elsewhere.example.com",
			change: func(c *protocol.Configure) { c.Secure, c.VerifyNames = true, []string{"example.com"} },
			want:   prober.Fetch{Status: 302, Location: "https://example.com/other", At: secure, Verdict: "redirect-elsewhere"},
		},
		"a proxy that refuses": {
			trust: trusts("the CA", own.Raw), change: func(c *protocol.Configure) { c.Secure = true },
			egress: &protocol.Egress{Through: []protocol.Through{{Ingress: secure, Proxy: protocol.EgressProxy{
				Name: "proxy.example.com", Addrs: []netip.AddrPort{refusing}, Authorization: "Basic c2VjcmV0",
			}}}},
			want:   prober.Fetch{At: secure, Cause: "egress-auth", Proxy: true},
			detail: "it answers 407 Proxy Authentication Required",
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := gateQuestion(plain, secure, tt.trust, tt.egress)
			if tt.host != "" {
				q.Host = tt.host
			}
			if tt.change != nil {
				tt.change(&q.Gate.Configure)
			}
			a, err := c.Ask(within(t, patience), prober.Question{Fetch: q})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(a.Fetch.Why.Text(a.Fetch.Context), tt.detail) || a.Fetch.Total <= 0 {
				t.Errorf("after %v: %s", a.Fetch.Total, a.Fetch.Why)
			}
			ignored := cmpopts.IgnoreFields(prober.Fetch{}, "FirstByte", "Total", "Date", "Why", "Context")
			same := cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })
			if diff := cmp.Diff(tt.want, *a.Fetch, ignored, same, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(prober.Fetch{}, bodyUnless(tt.want)...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// bodyUnless leaves out the page of a redirect, which is the server's.
func bodyUnless(want prober.Fetch) []string {
	if want.Status == http.StatusFound {
		return []string{"Body", "Length", "ContentType"}
	}
	return nil
}

func gateQuestion(plain, secure netip.AddrPort, trust *protocol.Trust, egress *protocol.Egress) *prober.FetchQuestion {
	return &prober.FetchQuestion{
		Addr: plain, Host: "example.com", Path: challenge, Agent: "test",
		Gate: &prober.Gate{
			Client: netip.MustParseAddrPort("192.0.2.10:40000"), VIP: netip.MustParseAddrPort("192.0.2.5:80"),
			Configure: protocol.Configure{
				Ingress: []netip.Addr{plain.Addr()}, Port: plain.Port(), HTTPSPort: secure.Port(), FollowRedirects: true, ConnectTimeout: patience,
			},
			Trust: trust, Egress: egress,
		},
	}
}

// refusingProxy answers with the credentials that it was sent.
func refusingProxy(t *testing.T) netip.AddrPort {
	t.Helper()
	return answering(t, func(conn *net.TCPConn, _ []byte) {
		_, _ = io.WriteString(conn, "HTTP/1.1 407 c2VjcmV0 is wrong\r\nContent-Length: 0\r\n\r\n")
	})
}

// TestAsGateInTime: who is silent takes the question's time and no more, and is named
// for it.
func TestAsGateInTime(t *testing.T) {
	c := client(t)
	silent := answering(t, func(conn *net.TCPConn, _ []byte) { _, _ = conn.Read(make([]byte, 1)) })
	q := gateQuestion(silent, silent, &protocol.Trust{}, nil)
	q.Gate.Configure.Secure = true
	const limit = 5 * time.Second
	a, err := c.Ask(within(t, limit), prober.Question{Fetch: q})
	if err != nil {
		t.Fatal(err)
	}
	if a.Fetch.Cause != "timeout-answer" {
		t.Errorf("in %v: %+v", limit, a.Fetch)
	}
}
