// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
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
	through := ingress.Egress{Routes: []ingress.EgressRoute{{Ingress: secure, Proxy: ingress.EgressProxy{Name: "proxy.lab.test"}}}}
	hidden := errors.New("permission denied")
	for name, tt := range map[string]struct {
		page    protocol.FetchResult
		gate    viaProxy
		names   []string
		outcome Outcome
		id      findings.ID
		message string
	}{
		"well":                           {page: protocol.FetchResult{Status: 503}, outcome: OK, message: "192.0.2.6:80: responds in"},
		"after a redirect":               {page: protocol.FetchResult{Status: 503, UpstreamAddr: secure}, outcome: OK, message: "192.0.2.6:443: responds in 0.0 ms, after a redirect to https"},
		"through a proxy":                {page: protocol.FetchResult{Status: 503, UpstreamAddr: secure}, gate: viaProxy{egress: through}, outcome: OK, message: ", through the egress proxy proxy.lab.test"},
		"an address from the child":      {page: protocol.FetchResult{Status: 503, UpstreamAddr: netip.MustParseAddrPort("198.51.100.1:1")}, outcome: OK, message: "192.0.2.6:80: responds in"},
		"unreadable settings":            {page: protocol.FetchResult{Cause: "refused"}, gate: viaProxy{err: hidden}, outcome: Skipped, message: "permission denied"},
		"unreadable CAs":                 {page: protocol.FetchResult{Cause: "tls-untrusted"}, gate: viaProxy{trustUnreadable: hidden}, outcome: OK, message: "cannot be verified: permission denied"},
		"not trusted":                    {page: protocol.FetchResult{Cause: "tls-untrusted", UpstreamAddr: secure, Details: cause.Details{Reason: cause.NoCertificate}}, outcome: Problem, id: findings.IngressTLSUntrusted, message: "The certificate of 192.0.2.6:443 is not trusted: it presents no certificate"},
		"not trusted, by a proxy":        {page: protocol.FetchResult{Cause: "tls-untrusted", UpstreamAddr: secure, ViaEgressProxy: true}, outcome: Problem, id: findings.IngressTLSUntrusted, message: "egressProxy.trustedCA"},
		"another name":                   {page: protocol.FetchResult{Cause: "tls-name"}, outcome: Problem, id: findings.IngressTLSName},
		"another name, API name unknown": {page: protocol.FetchResult{Cause: "tls-name"}, names: []string{}, outcome: OK, message: "without the API's name"},
		"a fault of the route":           {page: protocol.FetchResult{Status: 302, ResponseCause: "redirect-elsewhere"}, outcome: OK},
		"the PROXY protocol":             {page: protocol.FetchResult{Status: 400, ResponseCause: "proxy-protocol-unexpected"}, outcome: Problem, id: findings.IngressPROXYProtocol},
		"rejected credentials":           {page: protocol.FetchResult{Cause: "egress-auth", ViaEgressProxy: true, Details: cause.Details{Reason: cause.ProxyAnswer, Number: 407}, Context: cause.Context{EgressProxies: map[netip.AddrPort]cause.EgressProxy{netip.AddrPortFrom(vip, 80): {Name: "p", Port: 1}}}}, outcome: Problem, id: findings.EgressAuth, message: "The egress proxy p:1 rejects the credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.names == nil {
				tt.names = []string{"api.lab.test"}
			}
			h := &host{vips: keepalived.VIPs{Ingress: []netip.Addr{vip}}, config: config.Default()}
			h.report = func() (report.Report, error) { return report.Report{}, errors.New("not running") }
			h.observed = &observations{names: completed(tt.names), viaProxy: completed(tt.gate), ingressPages: map[netip.Addr]*fetchFuture{vip: completedFetch(tt.page)}}
			r := checkIngress(t.Context(), h)
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
			at := netip.MustParseAddrPort("203.0.113.6:80")
			h := &host{config: config.Default(), vips: keepalived.VIPs{Ingress: []netip.Addr{at.Addr()}}}
			h.config.VIPs.API = []netip.Addr{netip.MustParseAddr("192.0.2.5")}
			h.config.EgressProxy.Upstream, h.config.EgressProxy.HTTPProxy = config.EgressAuto, "http://192.0.2.31:3128"
			tt.change(&h.config.EgressProxy)
			a := ingressResponse{at, protocol.FetchResult{Cause: "unreachable"}}
			f := h.attributeToEgress(a.newFinding(findings.IngressUnreachable), a)
			if slices.Contains(f.CausedBy, findings.EgressNotReady) != tt.want {
				t.Errorf("caused by %q", f.CausedBy)
			}
		})
	}
}

// TestMemoize: two ports of an ingress use one egress proxy.
func TestMemoize(t *testing.T) {
	t.Parallel()
	queries := 0
	lookup := memoize(func(string) []netip.Addr { queries++; return nil })
	lookup("a")
	lookup("a")
	lookup("b")
	if queries != 2 {
		t.Errorf("%d queries", queries)
	}
}
