// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

var now = time.Date(2026, 3, 4, 12, 30, 0, 0, time.UTC)

// in returns a report of a service in a state.
func in(status string, reason report.Reason, message string, change func(*report.Report)) report.Report {
	r := report.Report{Conditions: []report.Condition{{
		Type: report.ConditionType, Status: status, Reason: reason, Message: message,
	}}}
	if change != nil {
		change(&r)
	}
	return r
}

func serving(change func(*report.Report)) report.Report {
	return in("True", report.Serving, "holds 192.0.2.5", change)
}

// certificate is valid for 90 days, of which this time is left.
func certificate(left time.Duration) report.Certificate {
	return report.Certificate{
		Address: "192.0.2.5:6443", Name: "api.example.com", Issuer: "R11", NotBefore: now.Add(left - 90*24*time.Hour),
		NotAfter: now.Add(left), FailedRenewals: 2, LastFailure: now.Add(-time.Hour),
	}
}

// TestProblems: each fault that a report shows is a finding, and each cause is listed once.
func TestProblems(t *testing.T) {
	t.Parallel()
	refused := findings.New(findings.IngressRefused, findings.Values{"upstream": "192.0.2.6:80"})
	upstream := report.Upstream{
		Address: netip.MustParseAddrPort("192.0.2.6:80"), Checked: now, Cause: "ingress-refused", Error: refused.Message,
	}
	for name, tt := range map[string]struct {
		r    report.Report
		want []string // "level ID: message", by their beginnings
	}{
		"healthy": {serving(nil), nil},
		"one cause in three places": {
			serving(func(r *report.Report) {
				r.Upstreams = []report.Upstream{upstream}
				r.SelfTests = []report.SelfTest{{Cause: "ingress-refused", Error: refused.Message}}
				r.Challenges.Recent = []report.RecentChallenge{{
					Time: now, Status: 502, Cause: "ingress-refused", Detail: refused.String(),
				}}
			}),
			[]string{"problem ingress-refused: 192.0.2.6:80 refuses connections"},
		},
		"the state names the cause": {
			in("False", report.UpstreamUnreachable, "no ingress address accepts connections: x", func(r *report.Report) {
				r.Upstreams = []report.Upstream{upstream}
			}),
			[]string{"problem ingress-refused: no ingress address accepts connections: x"},
		},
		"stopped": {
			report.ServiceUnreachable(now, fmt.Errorf("%w: no such file", report.ErrNotRunning)),
			[]string{"problem service-not-running: The service is not running: no process listens"},
		},
		"hanging":  {in("Unknown", report.NotReachable, "timeout", nil), []string{"problem service-unresponsive: The service runs but"}},
		"starting": {in("False", report.Starting, "m", nil), []string{"warning service-not-ready: Starting: m"}},
		"disabled": {in("False", report.Disabled, "m", nil), []string{"warning disabled: m"}},
		"port":     {in("False", report.PortInUse, "m", nil), []string{"problem port-in-use: m"}},
		"no VIPs":  {in("False", report.NoVIPs, "m", nil), []string{"problem service-not-ready: NoVIPs: m"}},
		"expired, at two addresses": {
			serving(func(r *report.Report) {
				other := certificate(-time.Hour)
				other.Address = "[2001:db8::5]:6443"
				r.Certificates = []report.Certificate{certificate(-time.Hour), other}
			}),
			[]string{"problem certificate-expired: The certificate that 192.0.2.5:6443 presents"},
		},
		"a failed renewal": {
			serving(func(r *report.Report) { r.Certificates = []report.Certificate{certificate(50 * 24 * time.Hour)} }),
			[]string{"warning renewal-attempt-failed: "},
		},
		"problems before warnings": {
			serving(func(r *report.Report) {
				r.VIPs = []report.VIP{
					{Address: netip.MustParseAddr("192.0.2.7"), State: report.VIPHeld},
					{Address: netip.MustParseAddr("192.0.2.5"), State: report.VIPStandby},
				}
				r.Certificates = []report.Certificate{
					{Address: "192.0.2.5:6443", Error: "no route to host"}, {Address: "192.0.2.7:6443", Error: "refused"},
				}
				r.VIPTests = []report.VIPTest{{
					VIP: netip.MustParseAddr("192.0.2.5"), Result: report.VIPRefused, Cause: "vip-unreachable-from-here",
				}}
				r.Metrics = report.Metrics{Address: "192.0.2.10:9645", Error: "in use"}
			}),
			[]string{
				"problem vip-unreachable-from-here: Port 80", "warning api-server-unreachable: This host holds the VIP, but 192.0.2.7:6443",
				"warning metrics-port-in-use: Metrics are not served on 192.0.2.10:9645: in use",
			},
		},
		"trust and egress": {
			serving(func(r *report.Report) {
				r.Trust = report.Trust{Kind: report.TrustLastGood, Error: "it is empty"}
				r.EgressProxy = report.EgressProxy{
					Upstream: "auto", Pending: true, Message: "no answer",
					Spec: report.EgressSetting{HTTPProxy: "http://p", Source: "f"},
				}
			}),
			[]string{
				"problem ca-bundle-invalid: The CA bundle is rejected, and the previous CAs stay trusted: it is empty",
				"problem egress-not-ready: The egress proxy http://p from f is not accepted: no answer. Until then, no",
			},
		},
		"a challenge before the VIP has moved": {
			serving(func(r *report.Report) {
				r.VIPs = []report.VIP{{Address: netip.MustParseAddr("192.0.2.5"), State: report.VIPStandby}}
				r.Challenges.Recent = []report.RecentChallenge{{Time: now, VIP: "192.0.2.5", Status: 503, Cause: "route-missing"}}
			}),
			nil,
		},
		"a challenge of two days ago": {
			serving(func(r *report.Report) {
				r.Challenges.Recent = []report.RecentChallenge{{
					Time: now.Add(-48 * time.Hour), Status: 503, Cause: "route-missing",
				}}
			}),
			nil,
		},
		"404 of an unknown token":  {serving(lastStatus(404)), nil},
		"a client that has closed": {serving(lastStatus(0)), nil},
		"a failed self-test": {
			serving(func(r *report.Report) {
				vip := netip.MustParseAddr("192.0.2.5")
				r.SelfTests = []report.SelfTest{{VIP: vip, Cause: "ingress-timeout", Error: "no reply"}}
			}),
			[]string{"warning self-test-failed: The last self-test of 192.0.2.5:80, at 00:00:00, failed with the finding ingress-timeout"},
		},
		"500 of a solver": {serving(lastStatus(500)), []string{"problem response-status: 192.0.2.6:80 answered 500"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := verdict.Problems(tt.r, now)
			if len(found) != len(tt.want) {
				t.Fatalf("got %+v, want %q", found, tt.want)
			}
			for i, f := range found {
				if got := fmt.Sprintf("%s %s: %s", f.Level, f.ID, f.Message); !strings.HasPrefix(got, tt.want[i]) {
					t.Errorf("got %q, want %q", got, tt.want[i])
				}
				if f.Remediation == "" || strings.Contains(f.Message+f.Remediation, "{") {
					t.Errorf("an incomplete finding: %+v", f)
				}
			}
		})
	}
}

func lastStatus(status int) func(*report.Report) {
	return func(r *report.Report) {
		r.Challenges.Recent = []report.RecentChallenge{{
			ClientKind: report.LetsEncrypt,
			Time:       now, Status: status, Upstream: "192.0.2.6:80", Host: "api.example.com",
		}}
	}
}

// TestChallengeText: the detail of a failed challenge contains message and remediation.
func TestChallengeText(t *testing.T) {
	t.Parallel()
	want := findings.New(findings.RouteMissing, findings.Values{"upstream": "192.0.2.6:80"})
	got := verdict.Response(report.RecentChallenge{Cause: "route-missing", Detail: want.String()})[0]
	if diff := cmp.Diff([]string{want.Message, want.Remediation}, []string{got.Message, got.Remediation}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestStatusLine: a state that is ready is followed by the number of problems, and by each of them.
func TestStatusLine(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]report.Report{
		"Serving: holds 192.0.2.5, no challenges yet": serving(nil),
		"Serving, with 1 problem: holds 192.0.2.5, 192.0.2.6:80 answered 500, but CAs accept only 200 " +
			"[response-status], 0 challenges, last 500": serving(lastStatus(500)),
		"Serving, with 1 warning: holds 192.0.2.5, no challenges yet": serving(func(r *report.Report) {
			r.Metrics = report.Metrics{Address: "a", Error: "in use"}
		}),
		"PortInUse: m": in("False", report.PortInUse, "m", nil),
		"UpstreamUnreachable: 192.0.2.6:80 fails. Check it, 1 challenge, last 500": in("False", report.UpstreamUnreachable,
			"192.0.2.6:80 fails. Check it.", func(r *report.Report) {
				r.Upstreams = []report.Upstream{{Address: netip.MustParseAddrPort("192.0.2.6:80"), Error: "192.0.2.6:80 fails"}}
				r.Challenges.Total, r.Challenges.Recent = 1, []report.RecentChallenge{{Status: 500}}
			}),
	} {
		if got := verdict.StatusLine(r, now); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestStrangersChangeNothing: a request of a client that is neither cert-manager nor a CA neither causes a
// problem nor hides one, and 404 hides none either.
func TestStrangersChangeNothing(t *testing.T) {
	t.Parallel()
	now := time.Now()
	request := func(kind report.ClientKind, status int) report.RecentChallenge {
		c := report.RecentChallenge{Time: now, ClientKind: kind, Host: "api.example.com", TokenPrefix: "x", Status: status}
		if status == 503 {
			c.Cause, c.Detail = string(findings.RouteMissing), "the router answered 503"
		}
		return c
	}
	const stranger = report.OtherClient
	for name, tt := range map[string]struct {
		recent []report.RecentChallenge
		want   int
	}{
		"an invented token":  {[]report.RecentChallenge{request(stranger, 503)}, 0},
		"like step-ca":       {[]report.RecentChallenge{request(report.StepCA, 503)}, 0},
		"of cert-manager":    {[]report.RecentChallenge{request(report.CertManager, 503)}, 1},
		"hidden by nobody":   {[]report.RecentChallenge{request(report.CertManager, 503), request(stranger, 200)}, 1},
		"before the solver":  {[]report.RecentChallenge{request(report.CertManager, 503), request(report.CertManager, 404)}, 1},
		"a client that left": {[]report.RecentChallenge{request(report.LetsEncrypt, 503), request(report.LetsEncrypt, 0)}, 1},
		"fixed":              {[]report.RecentChallenge{request(report.LetsEncrypt, 503), request(report.CertManager, 200)}, 0},
	} {
		r := report.Report{
			Conditions: []report.Condition{{Type: report.ConditionType, Status: "True", Reason: report.Serving}},
			Challenges: report.Challenges{Recent: tt.recent},
		}
		if got := verdict.Problems(r, now); len(got) != tt.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
