// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Responses of routers and their back ends.
func noRoutePage() protocol.FetchResult {
	return protocol.FetchResult{Connected: 1, Status: 503, ContentType: "text/html"}
}

func solverPage() protocol.FetchResult {
	body := "404 page not found\n"
	return protocol.FetchResult{
		Connected: 1, Status: 404, ContentType: "text/plain; charset=utf-8", Body: []byte(body),
		Length: len(body),
	}
}

func nginxPage() protocol.FetchResult {
	body := "<html>\r\n<head><title>404 Not Found</title></head></html>"
	return protocol.FetchResult{
		Connected: 1, Status: 404, Server: "nginx", ContentType: "text/html", Body: []byte(body),
		Length: len(body),
	}
}

// ingressWith is an ingress with this response.
func ingressWith(page protocol.FetchResult) Ingress {
	vip := netip.MustParseAddr("192.0.2.6")
	i := Ingress{Name: "api.lab.test", Port: 80, Responses: []Response{NewResponse(vip, 80, page)}}
	i.VIPs.Ingress = []netip.Addr{vip}
	return i
}

// recent are challenges that the service forwarded, the last one now.
func recent(challenges []report.RecentChallenge) (all Challenges) {
	for i, c := range challenges {
		if c.Time.IsZero() {
			c.Time = time.Now().Add(time.Duration(i-len(challenges)) * time.Second)
		}
		if c.Host == "" {
			c.Host = "api.lab.test"
		}
		c.TokenPrefix, c.Upstream = "evaGxfAD", "192.0.2.6:80"
		all = append(all, c)
	}
	return all
}

// TestRouteUsesLastChallenges: recent responses to cert-manager and CAs outweigh the
// response to an invented token. Responses to other clients are irrelevant.
func TestRouteUsesLastChallenges(t *testing.T) {
	t.Parallel()
	answered := func(asker report.ClientKind, outcome report.Outcome, code int, cause string) report.RecentChallenge {
		return report.RecentChallenge{ClientKind: asker, Outcome: outcome, Status: code, Cause: cause}
	}
	noRoute := func(asker report.ClientKind) report.RecentChallenge {
		return answered(asker, report.NoRoute, 503, "route-missing")
	}
	good := answered(report.CertManager, report.Answered, 200, "")
	old, foreign := noRoute(report.CertManager), noRoute(report.CertManager)
	old.Time, foreign.Host = time.Now().Add(-time.Hour), "api.other.test"
	cut := answered(report.CertManager, report.UpstreamError, 502, "response-malformed")
	cut.Detail = "192.0.2.6:80 did not send a valid HTTP/1.x response (bad status line); then x. Check that " +
		"upstream.port is the router's plain HTTP port."
	for name, tt := range map[string]struct {
		page       protocol.FetchResult
		challenges []report.RecentChallenge
		want       findings.ID // a problem, except for name-already-served alone
		message    string
	}{
		"no challenge": {page: noRoutePage()},
		"no route": {
			page:       noRoutePage(),
			challenges: []report.RecentChallenge{noRoute(report.CertManager)}, want: findings.RouteMissing,
			message: "of cert-manager)",
		},
		"no route for Let's Encrypt": {page: noRoutePage(), challenges: []report.RecentChallenge{
			good,
			noRoute(report.LetsEncrypt),
		}, want: findings.RouteMissing},
		"OK again": {
			page:       noRoutePage(),
			challenges: []report.RecentChallenge{noRoute(report.CertManager), good},
		},
		"long ago":     {page: noRoutePage(), challenges: []report.RecentChallenge{old}},
		"another name": {page: noRoutePage(), challenges: []report.RecentChallenge{foreign}},
		"another client": {
			page:       noRoutePage(),
			challenges: []report.RecentChallenge{noRoute(report.OtherClient)},
		},
		"check itself": {page: noRoutePage(), challenges: []report.RecentChallenge{noRoute("check")}},
		"another client after cert-manager": {page: noRoutePage(), challenges: []report.RecentChallenge{
			good,
			noRoute(report.OtherClient),
		}},
		"cert-manager before another client": {
			page:       noRoutePage(),
			challenges: []report.RecentChallenge{noRoute(report.CertManager), noRoute(report.OtherClient)},
			want:       findings.RouteMissing,
		},
		"any Go program": {
			page:       noRoutePage(),
			challenges: []report.RecentChallenge{noRoute(report.StepCA)},
		},
		"step-ca, after cert-manager": {page: noRoutePage(), challenges: []report.RecentChallenge{
			good,
			noRoute(report.StepCA),
		}, want: findings.RouteMissing},
		"a redirect": {
			page:       noRoutePage(),
			challenges: []report.RecentChallenge{answered(report.CertManager, report.Redirected, 302, "route-redirects-https")},
			want:       findings.RouteRedirectsHTTPS,
		},
		"500": {
			page:       noRoutePage(),
			challenges: []report.RecentChallenge{answered(report.CertManager, report.OtherStatus, 500, "")},
			want:       findings.ResponseStatus, message: "192.0.2.6:80 answered 500",
		},
		"404": {
			page:       noRoutePage(),
			challenges: []report.RecentChallenge{answered(report.CertManager, report.NotFound, 404, "")},
			want:       findings.TokenUnknown,
		},
		"a solver that does not respond": {
			page:       noRoutePage(),
			challenges: []report.RecentChallenge{answered(report.CertManager, report.UpstreamError, 504, "ingress-no-response")},
			want:       findings.IngressNoResponse,
		},
		"no HTTP": {
			page: noRoutePage(), challenges: []report.RecentChallenge{cut},
			want: findings.ResponseMalformed, message: "response (bad status line); then x (as at",
		},
		"an ingress that was down": {
			page:       noRoutePage(),
			challenges: []report.RecentChallenge{answered(report.CertManager, report.UpstreamError, 502, "ingress-refused")},
		},
		"an aborted request": {page: noRoutePage(), challenges: []report.RecentChallenge{
			good,
			answered(report.CertManager, report.AnswerUnread, 0, ""),
		}},
		"a solver": {page: solverPage()},
		"not a solver": {
			page: nginxPage(), want: findings.NameAlreadyServed,
			message: `(status 404 by "nginx", an HTML page of 56 bytes)`,
		},
		"not a solver, with a challenge": {
			page:       nginxPage(),
			challenges: []report.RecentChallenge{answered(report.CertManager, report.NotFound, 404, "")},
			want:       findings.NameAlreadyServed, message: "for the challenge evaGxfAD… of cert-manager",
		},
		"an ingress that does not connect": {
			page:       protocol.FetchResult{Cause: "ingress-refused"},
			challenges: []report.RecentChallenge{noRoute(report.CertManager)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := ingressWith(tt.page).CheckRoute("", recent(tt.challenges).LastFor([]string{"api.lab.test"}))
			var got []findings.ID
			for _, f := range r.Findings {
				got = append(got, f.ID)
				if (f.Level == findings.Problem) != (len(tt.challenges) > 0) || !strings.Contains(f.Message, tt.message) {
					t.Errorf("%s %s: want %q", f.Level, f.Message, tt.message)
				}
			}
			var want []findings.ID
			if tt.want != "" {
				want = append(want, tt.want)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s\n%+v", diff, r)
			}
		})
	}
}

// TestRouteForAddress: a challenge for an IP address has a finding of its own, also beside a
// later one for the API's name.
func TestRouteForAddress(t *testing.T) {
	t.Parallel()
	of := func(kind report.ClientKind, host, cause string) report.RecentChallenge {
		return report.RecentChallenge{ClientKind: kind, Host: host, Outcome: report.NoRoute, Status: 503, Cause: cause}
	}
	const id = string(findings.RouteMissingForAddress)
	for name, tt := range map[string]struct {
		challenges []report.RecentChallenge
		want       []findings.ID
	}{
		"IPv4": {
			[]report.RecentChallenge{of(report.CertManager, "192.0.2.5", id)},
			[]findings.ID{findings.RouteMissingForAddress},
		},
		"IPv6": {
			[]report.RecentChallenge{of(report.CertManager, "[2001:db8::5]", id)},
			[]findings.ID{findings.RouteMissingForAddress},
		},
		"both": {[]report.RecentChallenge{
			of(report.CertManager, "192.0.2.5", id),
			of(report.CertManager, "api.lab.test", "route-missing"),
		}, []findings.ID{
			findings.RouteMissing,
			findings.RouteMissingForAddress,
		}},
		"a scanner's": {[]report.RecentChallenge{of(report.OtherClient, "192.0.2.5", id)}, nil},
	} {
		all := recent(tt.challenges)
		var got []findings.ID
		for _, f := range ingressWith(noRoutePage()).CheckRoute("", all.LastFor([]string{"api.lab.test"}),
			all.LastForAddress()).Findings {
			got = append(got, f.ID)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestRouterRejects: a router can reject the challenge itself, as HAProxy 3.2 does with a Host that it does
// not accept and with a head that does not fit.
func TestRouterRejects(t *testing.T) {
	t.Parallel()
	const token = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr_oA"
	for status, body := range map[int]string{
		400: "<html><body><h1>400 Bad request</h1>\nYour browser sent an invalid request.\n</body></html>\n",
		431: "<html><body><h1>431 Request Header Fields Too Large</h1>\n" +
			"Request Header Fields Too Large.\n</body></html>\n",
	} {
		r := ingressWith(protocol.FetchResult{Status: status, Body: []byte(body), Length: len(body)}).CheckRoute(token)
		if len(r.Findings) != 1 || r.Findings[0].ID != findings.ResponseStatus ||
			!strings.Contains(r.Findings[0].Message, fmt.Sprintf("192.0.2.6:80 answered status %d, but CAs accept only 200", status)) {
			t.Errorf("%d: %+v", status, r.Findings)
		}
	}
}
