// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/ownership"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
)

// hostWithChallenge is a host that follows a challenge, of which the front door and the
// ingress have answered these.
func hostWithChallenge(door, ingress protocol.FetchResult) *host {
	h := hostWithIngress(ingress)
	vip := netip.MustParseAddr("192.0.2.5")
	h.Token, h.vips.API = "tok", []netip.Addr{vip}
	front := protocol.FetchResult{Connected: 1, Status: 400, Body: []byte(reqhead.OnlyChallenges)}
	h.observed.vipRoots = map[netip.Addr]*fetchFuture{vip: completedFetch(front)}
	h.observed.challengePages = map[netip.Addr]*fetchFuture{vip: completedFetch(door)}
	h.observed.dns = completed(dnsResult{views: []dnsView{{name: "api.lab.test", records: [2]dnsRecord{{LookupResult: protocol.LookupResult{Addresses: []netip.Addr{vip}}}}}}})
	return h
}

// TestBrokenResponse: an answer that is cut is no good one, and the front door's own
// 502 about it is no sign of a network that differs.
func TestBrokenResponse(t *testing.T) {
	t.Parallel()
	key := "tok." + strings.Repeat("x", 43)
	good := protocol.FetchResult{Connected: 1, Status: 200, ContentType: "text/plain", Body: []byte(key), Length: len(key)}
	through := good
	through.Via = "1.1 http01-proxyd"
	large := protocol.FetchResult{Connected: 1, Status: 200, Cause: "answer-too-large", Details: cause.Details{Reason: cause.TooLarge}, Length: 65536}
	cut := protocol.FetchResult{Connected: 1, Status: 200, Cause: "answer-truncated", Via: "1.1 http01-proxyd", Details: cause.Details{Reason: cause.EndOfStream}}
	own := protocol.FetchResult{Connected: 1, Status: 502, ContentType: "text/plain; charset=utf-8", Body: []byte("upstream sent an answer that is too large\n")}
	other := protocol.FetchResult{Connected: 1, Status: 200, Body: []byte("hello"), Length: 5}
	for name, tt := range map[string]struct {
		door, ingress protocol.FetchResult
		want          string // marks of the hops
		differs       bool
		says          string // of the self check
	}{
		"well":            {through, good, "dns ✓, dns ✓, connect ✓, front-door ✓, ingress ✓, solver ✓, lets-encrypt ✓, cert-manager ✓", false, "answers as the ingress does"},
		"too large":       {own, large, "dns ✓, dns ✓, connect ✓, front-door ✗, ingress ✗, lets-encrypt ✗, cert-manager ✗", false, "the front door"},
		"broken off":      {cut, cut, "dns ✓, dns ✓, connect ✓, front-door ✗, ingress ✗, lets-encrypt ✗, cert-manager ✗", false, "the front door"},
		"its own 502":     {own, good, "dns ✓, dns ✓, connect ✓, front-door ✗, ingress ✓, lets-encrypt ✗, cert-manager ✗", false, "to the challenge it answered 502 by itself: \"upstream sent an answer that is too large\""},
		"something else":  {other, good, "dns ✓, dns ✓, connect ✓, front-door ✓, ingress ✓, solver ✗, lets-encrypt ✗, cert-manager ✗", true, ""},
		"another's error": {protocol.FetchResult{Connected: 1, Status: 500}, good, "dns ✓, dns ✓, connect ✓, front-door ✗, ingress ✓, lets-encrypt ✗, cert-manager ✗", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := hostWithChallenge(tt.door, tt.ingress)
			hops := h.traceChallenge(t.Context())
			var got []string
			for _, x := range hops {
				got = append(got, x.Step+" "+symbol(x.Outcome, false))
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("(-want +got):\n%s\n%+v", diff, hops)
			}
			if r := checkSelfCheck(t.Context(), h); (len(r.Findings) > 0) != tt.differs || !strings.Contains(r.Text, tt.says) {
				t.Errorf("self check: %+v", r)
			}
		})
	}
}

// TestTokenWithoutName: a token that cannot be followed is not all well.
func TestTokenWithoutName(t *testing.T) {
	t.Parallel()
	h := hostWithChallenge(protocol.FetchResult{}, protocol.FetchResult{})
	h.observed.names = completed[[]string](nil)
	h.privileged = true
	if r := h.newReport([]Result{okResult("well")}, h.traceChallenge(t.Context())); r.Outcome != Problem || strings.HasPrefix(r.Summary, "All is well") {
		t.Errorf("%+v", r)
	}
}

// TestPresentedText: without a name nobody is answered, it could seem.
func TestPresentedText(t *testing.T) {
	t.Parallel()
	cert := &protocol.Certificate{Issuer: "lab-issuer", NotAfter: time.Unix(1_800_000_000, 0)}
	for name, want := range map[string]string{
		"":             `for clients that send no name: issued by "lab-issuer", until 2027-01-15`,
		"api.lab.test": `for api.lab.test: issued by "lab-issuer", until 2027-01-15`,
	} {
		if got := (presentedCertificate{prober.CertificateResult{CertificateRequest: protocol.CertificateRequest{Name: name}, Certificate: cert}}).describe(); got != want {
			t.Errorf("%q: got %s", name, got)
		}
	}
}

// TestUnreachableAPIServer: who holds a VIP is to have an API server behind it.
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
		"not asked":          {[]netip.Addr{vip}, []presentedCertificate{at(other, "", refused)}, 0},
	} {
		h := &host{vips: keepalived.VIPs{API: []netip.Addr{vip}}, ownership: ownership.Decision{Held: tt.held}}
		findings, addrs := h.unreachableAPIServers(tt.all)
		if len(findings) != tt.want || len(addrs) != tt.want {
			t.Errorf("%s: %+v", name, findings)
		}
	}
}
