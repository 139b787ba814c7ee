// SPDX-License-Identifier: Apache-2.0

package challengetrace

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/dns"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/selfcheck"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

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
		"well":            {through, good, "dns ✓, dns ✓, connect ✓, proxy ✓, ingress ✓, solver ✓", false, "with the same response as the ingress"},
		"too large":       {own, large, "dns ✓, dns ✓, connect ✓, proxy ✗, ingress ✗", false, "http01-proxyd responds"},
		"broken off":      {cut, cut, "dns ✓, dns ✓, connect ✓, proxy ✗, ingress ✗", false, "http01-proxyd responds"},
		"its own 502":     {own, good, "dns ✓, dns ✓, connect ✓, proxy ✗, ingress ✓", false, "it answered the challenge with its own 502: \"upstream sent a response that is too large\""},
		"something else":  {other, good, "dns ✓, dns ✓, connect ✓, proxy ✓, ingress ✓, solver ✗", true, ""},
		"another's error": {protocol.FetchResult{Connected: 1, Status: 500}, good, "dns ✓, dns ✓, connect ✓, proxy ✗, ingress ✓", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vip := netip.MustParseAddr("192.0.2.5")
			in := ingress.Ingress{Responses: []ingress.Response{ingress.NewResponse(netip.MustParseAddr("192.0.2.6"), 80, tt.ingress)}}
			answers := dns.Answers{Views: []dns.View{{Name: "api.lab.test", Records: [2]dns.Record{{LookupResult: protocol.LookupResult{Addresses: []netip.Addr{vip}}}}}}}
			steps, addrs := Names("api.lab.test", answers, nil)
			hops := Trace{Token: "tok", DNS: steps, Answers: []Answer{{Addr: netip.AddrPortFrom(addrs[0], 80), Page: tt.proxy}}, Ingress: in.Responses}.Steps()
			var got []string
			for _, x := range hops {
				got = append(got, x.Step+" "+map[result.Outcome]string{result.OK: "✓", result.Problem: "✗"}[x.Outcome])
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("(-want +got):\n%s\n%+v", diff, hops)
			}
			s := selfcheck.SelfCheck{Name: "api.lab.test", Challenges: map[netip.Addr]protocol.FetchResult{vip: tt.proxy}, Ingress: in}
			s.Add(selfcheck.Response{VIP: vip, Page: protocol.FetchResult{Connected: 1, Status: 400, Body: []byte(reqhead.OnlyChallenges)}})
			if r := s.Check(); (len(r.Findings) > 0) != tt.differs || !strings.Contains(r.Text, tt.message) {
				t.Errorf("self check: %+v", r)
			}
		})
	}
}

// TestCertManager: the step shows what was observed.
func TestCertManager(t *testing.T) {
	t.Parallel()
	for want, log := range map[string]selfcheck.Log{
		"": {Watched: time.Second},
		"✓ at 03:00:00, cert-manager got status 200":    {Request: &report.RecentChallenge{Time: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC), ClientKind: report.CertManager, Status: 200}},
		"✗ cert-manager has sent no request within 11s": {Watched: selfcheck.WatchTime},
	} {
		var got []string
		for _, s := range (Trace{Log: log}).Steps() {
			got = append(got, map[result.Outcome]string{result.OK: "✓ ", result.Problem: "✗ "}[s.Outcome]+s.Text)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
