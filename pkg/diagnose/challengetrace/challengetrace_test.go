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
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/selfcheck"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestBrokenResponse: a truncated response is not OK, nor one that is not the key. The step that fails
// is where the fault is: the proxy passes a response of the ingress on.
func TestBrokenResponse(t *testing.T) {
	t.Parallel()
	key := "tok." + strings.Repeat("x", 43)
	good := protocol.FetchResult{Connected: 1, Status: 200, ContentType: "text/plain", Body: []byte(key), Length: len(key)}
	through := good
	through.Via = "1.1 http01-proxyd"
	large := protocol.FetchResult{
		Connected: 1, Status: 200, Cause: "response-too-large",
		Details: cause.Details{Reason: cause.TooLarge}, Length: 65536,
	}
	cut := protocol.FetchResult{
		Connected: 1, Status: 200, Cause: "response-truncated", Via: "1.1 http01-proxyd",
		Details: cause.Details{Reason: cause.EndOfStream},
	}
	own := protocol.FetchResult{
		Connected: 1, Status: 502, ContentType: "text/plain; charset=utf-8",
		Body: []byte("upstream sent a response that is too large\n"),
	}
	direct503 := protocol.FetchResult{Connected: 1, Status: 503}
	through503 := direct503
	through503.Via = "1.1 http01-proxyd"
	other := protocol.FetchResult{Connected: 1, Status: 200, Body: []byte("hello"), Length: 5}
	for name, tt := range map[string]struct {
		proxy, ingress protocol.FetchResult
		want           string // symbols of the steps
	}{
		"well":           {through, good, "dns ✓, dns ✓, connect ✓, proxy ✓, ingress ✓, solver ✓"},
		"too large":      {own, large, "dns ✓, dns ✓, connect ✓, proxy ✓, ingress ✗"},
		"broken off":     {cut, cut, "dns ✓, dns ✓, connect ✓, proxy ✓, ingress ✗"},
		"503":            {through503, direct503, "dns ✓, dns ✓, connect ✓, proxy ✓, ingress ✗"},
		"503 behind it":  {through503, good, "dns ✓, dns ✓, connect ✓, proxy ✓, ingress ✓, ingress ✗"},
		"its own 502":    {own, good, "dns ✓, dns ✓, connect ✓, proxy ✓, ingress ✓, ingress ✗"},
		"another's 502":  {protocol.FetchResult{Connected: 1, Status: 502}, good, "dns ✓, dns ✓, connect ✓, proxy ✗, ingress ✓"},
		"something else": {other, good, "dns ✓, dns ✓, connect ✓, proxy ✗, ingress ✓, solver ✗"},
		"without Via":    {good, good, "dns ✓, dns ✓, connect ✓, proxy ✓, ingress ✓, solver ✓"},
		"another's error": {
			protocol.FetchResult{Connected: 1, Status: 500},
			good,
			"dns ✓, dns ✓, connect ✓, proxy ✗, ingress ✓",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vip := netip.MustParseAddr("192.0.2.5")
			in := ingress.Ingress{Responses: []ingress.Response{ingress.NewResponse(netip.MustParseAddr("192.0.2.6"), 80,
				tt.ingress)}}
			answers := dns.Answers{Views: []dns.View{{
				Name:         "api.lab.test",
				LookupResult: protocol.LookupResult{Records: [2]protocol.Record{{Addresses: []netip.Addr{vip}}}},
			}}}
			steps, addrs := Names("api.lab.test", answers, nil)
			hops := Trace{
				Token: "tok", DNS: steps, Answers: []Answer{{Addr: netip.AddrPortFrom(addrs[0], 80), Page: tt.proxy}},
				Ingress: in.Responses,
			}.Steps()
			var got []string
			for _, x := range hops {
				got = append(got, x.Step+" "+map[report.CheckOutcome]string{report.CheckOK: "✓", report.CheckProblem: "✗"}[x.Outcome])
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("(-want +got):\n%s\n%+v", diff, hops)
			}
		})
	}
}

// TestCertManager: the step shows what was observed.
func TestCertManager(t *testing.T) {
	t.Parallel()
	for want, log := range map[string]selfcheck.Log{
		"": {Watched: time.Second},
		"✓ at 03:00:00, cert-manager got status 200":                  {Request: &report.RecentChallenge{Time: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC), ClientKind: report.CertManager, Status: 200}},
		"✗ neither cert-manager nor a CA has requested it within 11s": {Watched: selfcheck.WatchTime},
	} {
		var got []string
		for _, s := range (Trace{Log: log}).Steps() {
			got = append(got, map[report.CheckOutcome]string{report.CheckOK: "✓ ", report.CheckProblem: "✗ "}[s.Outcome]+s.Text)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
