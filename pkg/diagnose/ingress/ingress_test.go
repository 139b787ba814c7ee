// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestIngressViaProxy: unreadable settings are not a fault, and a working ingress is
// reported with its route.
func TestIngressViaProxy(t *testing.T) {
	t.Parallel()
	vip := netip.MustParseAddr("192.0.2.6")
	secure := netip.AddrPortFrom(vip, 443)
	through := ingress.Egress{Routes: []ingress.EgressRoute{{
		Ingress: secure,
		Proxy:   ingress.EgressProxy{Name: "proxy.lab.test"},
	}}}
	hidden := errors.New("permission denied")
	for name, tt := range map[string]struct {
		page    protocol.FetchResult
		route   egress.Route
		unnamed bool
		outcome report.CheckOutcome
		id      findings.ID
		message string
	}{
		"well": {
			page: protocol.FetchResult{Status: 503}, outcome: report.CheckOK,
			message: "192.0.2.6:80: responds in",
		},
		"after a redirect": {
			page: protocol.FetchResult{Status: 503, UpstreamAddr: secure}, outcome: report.CheckOK,
			message: "192.0.2.6:443: responds in 0.0 ms, after a redirect to https",
		},
		"through a proxy": {
			page:  protocol.FetchResult{Status: 503, UpstreamAddr: secure},
			route: egress.Route{Egress: through}, outcome: report.CheckOK, message: ", through the egress proxy proxy.lab.test",
		},
		"an address from the child": {page: protocol.FetchResult{
			Status:       503,
			UpstreamAddr: netip.MustParseAddrPort("198.51.100.1:1"),
		}, outcome: report.CheckOK, message: "192.0.2.6:80: responds in"},
		"unreadable settings": {
			page:  protocol.FetchResult{Cause: "ingress-refused"},
			route: egress.Route{Err: hidden}, outcome: report.CheckSkipped, message: "permission denied",
		},
		"unreadable CAs": {
			page:  protocol.FetchResult{Cause: "ingress-tls-untrusted"},
			route: egress.Route{TrustUnreadable: hidden}, outcome: report.CheckSkipped,
			message: "cannot be verified: permission denied",
		},
		"not trusted": {
			page: protocol.FetchResult{
				Cause: "ingress-tls-untrusted", UpstreamAddr: secure,
				Details: cause.Details{Reason: cause.NoCertificate},
			}, outcome: report.CheckProblem, id: findings.IngressTLSUntrusted,
			message: "The certificate of 192.0.2.6:443 is not trusted: it presents no certificate",
		},
		"not trusted, by a proxy": {page: protocol.FetchResult{
			Cause: "ingress-tls-untrusted", UpstreamAddr: secure,
			ViaEgressProxy: true,
		}, outcome: report.CheckProblem, id: findings.IngressTLSUntrusted, message: "egressProxy.trustedCA"},
		"another name": {
			page: protocol.FetchResult{Cause: "ingress-tls-name"}, outcome: report.CheckProblem,
			id: findings.IngressTLSName,
		},
		"another name, API name unknown": {
			page: protocol.FetchResult{Cause: "ingress-tls-name"}, unnamed: true,
			outcome: report.CheckSkipped, message: "without the API's name",
		},
		"a fault of the route": {
			page:    protocol.FetchResult{Status: 302, ResponseCause: "route-redirects-elsewhere"},
			outcome: report.CheckOK,
		},
		"the PROXY protocol": {
			page:    protocol.FetchResult{Status: 400, ResponseCause: "ingress-proxy-protocol"},
			outcome: report.CheckProblem, id: findings.IngressPROXYProtocol,
		},
		"rejected credentials": {
			page: protocol.FetchResult{
				Cause: "egress-auth", ViaEgressProxy: true,
				Details: cause.Details{Reason: cause.ProxyAnswer, Number: 407},
				Context: cause.Context{EgressProxies: map[netip.AddrPort]cause.EgressProxy{netip.AddrPortFrom(vip, 80): {
					Name: "p",
					Port: 1,
				}}},
			}, outcome: report.CheckProblem, id: findings.EgressAuth,
			message: "The egress proxy p:1 rejects the credentials",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := ingressWith(tt.page)
			i.Route = tt.route
			if tt.unnamed {
				i.Name = ""
			}
			r := i.Check()
			text := r.Text
			var id findings.ID
			for _, f := range r.Findings {
				id, text = f.ID, f.String()
			}
			if r.Outcome != tt.outcome || id != tt.id || !strings.Contains(text, tt.message) {
				t.Errorf("%s %s %q, want %s %s %q", r.Outcome, id, text, tt.outcome, tt.id, tt.message)
			}
		})
	}
}

// TestAttributeToEgress: an unreachable ingress is attributed to an egress proxy that
// is not accepted, if the route leads through it.
func TestAttributeToEgress(t *testing.T) {
	t.Parallel()
	at := netip.MustParseAddrPort("203.0.113.6:80")
	for name, tt := range map[string]struct {
		change func(*config.EgressProxy)
		want   bool
	}{
		"the route leads through it":  {func(*config.EgressProxy) {}, true},
		"egressProxy.upstream: never": {func(e *config.EgressProxy) { e.Upstream = config.EgressNever }, false},
		"excluded by noProxy":         {func(e *config.EgressProxy) { e.NoProxy = "203.0.113.0/24" }, false},
		"no proxy":                    {func(e *config.EgressProxy) { e.HTTPProxy, e.NoProxy = "", "x" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config.Default()
			c.VIPs.API = []netip.Addr{netip.MustParseAddr("192.0.2.5")}
			c.EgressProxy.Upstream, c.EgressProxy.HTTPProxy = config.EgressAuto, "http://192.0.2.31:3128"
			tt.change(&c.EgressProxy)
			i := Ingress{NeedsEgress: egress.Settings{Config: c}.Proxied([]netip.Addr{at.Addr()})}
			a := Response{at, protocol.FetchResult{Cause: "ingress-unreachable"}}
			f := i.attribute(a.finding(findings.IngressUnreachable, ""), a)
			if slices.Contains(f.CausedBy, findings.EgressNotReady) != tt.want {
				t.Errorf("caused by %q", f.CausedBy)
			}
		})
	}
}

// TestLinkDown: a fault that a VIP's link explains is not reported besides. Other
// faults are.
func TestLinkDown(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		page protocol.FetchResult
		want report.CheckOutcome
	}{
		"no route": {
			protocol.FetchResult{Cause: "ingress-unreachable", Details: cause.DetailsOf(unix.ENETUNREACH)},
			report.CheckSkipped,
		},
		"a firewall": {
			protocol.FetchResult{Cause: "ingress-unreachable", Details: cause.DetailsOf(unix.EHOSTUNREACH)},
			report.CheckSkipped,
		},
		"nothing listens": {protocol.FetchResult{Cause: "ingress-refused"}, report.CheckProblem},
	} {
		i := ingressWith(tt.page)
		cause := result.Found(findings.VIPLinkDown, nil)
		cause.Name = "vip-holder"
		if all := result.NewReport(result.Conditions{}, []result.Result{cause, i.Check()},
			nil).Checks; all[1].Outcome != tt.want {
			t.Errorf("%s: %+v", name, all[1])
		}
	}
}
