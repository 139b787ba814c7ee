// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/ownership"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
)

// hostWithChallenge is a host that traces a challenge with these responses of the proxy
// and the ingress.
func hostWithChallenge(proxy, ingress protocol.FetchResult) *host {
	h := hostWithIngress(ingress)
	vip := netip.MustParseAddr("192.0.2.5")
	h.Token, h.vips.API = "tok", []netip.Addr{vip}
	front := protocol.FetchResult{Connected: 1, Status: 400, Body: []byte(reqhead.OnlyChallenges)}
	h.observed.vipRoots = map[netip.Addr]*fetchFuture{vip: completedFetch(front)}
	h.observed.challengePages = map[netip.Addr]*fetchFuture{vip: completedFetch(proxy)}
	h.observed.dns = completed(dnsResult{views: []dnsView{{name: "api.lab.test", records: [2]dnsRecord{{LookupResult: protocol.LookupResult{Addresses: []netip.Addr{vip}}}}}}})
	return h
}

// TestBrokenResponse: a truncated response is not OK, and the proxy's own 502 about it
// does not indicate a different network.
func TestBrokenResponse(t *testing.T) {
	t.Parallel()
	key := "tok." + strings.Repeat("x", 43)
	good := protocol.FetchResult{Connected: 1, Status: 200, ContentType: "text/plain", Body: []byte(key), Length: len(key)}
	through := good
	through.Via = "1.1 http01-proxyd"
	large := protocol.FetchResult{Connected: 1, Status: 200, Cause: "response-too-large", Details: cause.Details{Reason: cause.TooLarge}, Length: 65536}
	cut := protocol.FetchResult{Connected: 1, Status: 200, Cause: "response-truncated", Via: "1.1 http01-proxyd", Details: cause.Details{Reason: cause.EndOfStream}}
	own := protocol.FetchResult{Connected: 1, Status: 502, ContentType: "text/plain; charset=utf-8", Body: []byte("upstream sent a response that is too large\n")}
	other := protocol.FetchResult{Connected: 1, Status: 200, Body: []byte("hello"), Length: 5}
	for name, tt := range map[string]struct {
		proxy, ingress protocol.FetchResult
		want           string // symbols of the steps
		differs        bool
		message        string // of the self check
	}{
		"well":            {through, good, "dns ✓, dns ✓, connect ✓, proxy ✓, ingress ✓, solver ✓, lets-encrypt ✓, cert-manager ✓", false, "with the same response as the ingress"},
		"too large":       {own, large, "dns ✓, dns ✓, connect ✓, proxy ✗, ingress ✗, lets-encrypt ✗, cert-manager ✗", false, "http01-proxyd responds"},
		"broken off":      {cut, cut, "dns ✓, dns ✓, connect ✓, proxy ✗, ingress ✗, lets-encrypt ✗, cert-manager ✗", false, "http01-proxyd responds"},
		"its own 502":     {own, good, "dns ✓, dns ✓, connect ✓, proxy ✗, ingress ✓, lets-encrypt ✗, cert-manager ✗", false, "it answered the challenge with its own 502: \"upstream sent a response that is too large\""},
		"something else":  {other, good, "dns ✓, dns ✓, connect ✓, proxy ✓, ingress ✓, solver ✗, lets-encrypt ✗, cert-manager ✗", true, ""},
		"another's error": {protocol.FetchResult{Connected: 1, Status: 500}, good, "dns ✓, dns ✓, connect ✓, proxy ✗, ingress ✓, lets-encrypt ✗, cert-manager ✗", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := hostWithChallenge(tt.proxy, tt.ingress)
			hops := h.traceChallenge(t.Context())
			var got []string
			for _, x := range hops {
				got = append(got, x.Step+" "+symbol(x.Outcome, false))
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("(-want +got):\n%s\n%+v", diff, hops)
			}
			if r := checkSelfCheck(t.Context(), h); (len(r.Findings) > 0) != tt.differs || !strings.Contains(r.Text, tt.message) {
				t.Errorf("self check: %+v", r)
			}
		})
	}
}

// TestTokenWithoutName: a token that cannot be traced is a problem.
func TestTokenWithoutName(t *testing.T) {
	t.Parallel()
	h := hostWithChallenge(protocol.FetchResult{}, protocol.FetchResult{})
	h.observed.names = completed[[]string](nil)
	h.privileged = true
	if r := h.newReport([]Result{okResult("well")}, h.traceChallenge(t.Context())); r.Outcome != Problem || strings.HasPrefix(r.Summary, "No problems") {
		t.Errorf("%+v", r)
	}
}

// TestPresentedText: clients without SNI are described.
func TestPresentedText(t *testing.T) {
	t.Parallel()
	cert := &protocol.Certificate{Issuer: "lab-issuer", NotAfter: time.Unix(1_800_000_000, 0)}
	for name, want := range map[string]string{
		"":             `for clients without SNI: issued by "lab-issuer", until 2027-01-15`,
		"api.lab.test": `for api.lab.test: issued by "lab-issuer", until 2027-01-15`,
	} {
		if got := (presentedCertificate{prober.CertificateResult{CertificateRequest: protocol.CertificateRequest{Name: name}, Certificate: cert}}).describe(); got != want {
			t.Errorf("%q: got %s", name, got)
		}
	}
}

// TestUnreachableAPIServer: the holder of a VIP must have an API server behind it.
func TestUnreachableAPIServer(t *testing.T) {
	t.Parallel()
	vip, other := netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("192.0.2.11")
	refused := errors.New("connection refused")
	at := func(addr netip.Addr, name string, err error) presentedCertificate {
		return presentedCertificate{prober.CertificateResult{CertificateRequest: protocol.CertificateRequest{Addr: netip.AddrPortFrom(addr, prober.APIPort), Name: name}, Err: err}}
	}
	for name, tt := range map[string]struct {
		held []netip.Addr
		all  []presentedCertificate
		want int
	}{
		"refused here":       {[]netip.Addr{vip}, []presentedCertificate{at(vip, "a", refused), at(vip, "", refused), at(other, "", refused)}, 1},
		"refused elsewhere":  {nil, []presentedCertificate{at(vip, "", refused), at(other, "", refused)}, 0},
		"refused for a name": {[]netip.Addr{vip}, []presentedCertificate{at(vip, "a", refused), at(vip, "", nil)}, 0},
		"not queried":        {[]netip.Addr{vip}, []presentedCertificate{at(other, "", refused)}, 0},
	} {
		h := &host{vips: keepalived.VIPs{API: []netip.Addr{vip}}, ownership: ownership.Decision{Held: tt.held}}
		findings, addrs := h.unreachableAPIServers(tt.all)
		if len(findings) != tt.want || len(addrs) != tt.want {
			t.Errorf("%s: %+v", name, findings)
		}
	}
}

// TestProxyBody: check recognises the proxy by its own response.
func TestProxyBody(t *testing.T) {
	t.Parallel()
	if proxyBody != reqhead.OnlyChallenges {
		t.Errorf("%q, but the proxy returns %q", proxyBody, reqhead.OnlyChallenges)
	}
}
