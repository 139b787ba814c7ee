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
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestIngressViaProxy: what this process cannot know is nobody's fault, and what is well
// says which way was gone.
func TestIngressViaProxy(t *testing.T) {
	t.Parallel()
	vip := netip.MustParseAddr("192.0.2.6")
	secure := netip.AddrPortFrom(vip, 443)
	through := ingress.Egress{Routes: []ingress.EgressRoute{{Ingress: secure, Proxy: ingress.EgressProxy{Name: "proxy.lab.test"}}}}
	hidden := errors.New("permission denied")
	for name, tt := range map[string]struct {
		page    prober.FetchResult
		gate    viaProxy
		names   []string
		outcome Outcome
		id      findings.ID
		says    string
	}{
		"well":                      {page: prober.FetchResult{Status: 503}, outcome: OK, says: "192.0.2.6:80: answers in"},
		"after a redirect":          {page: prober.FetchResult{Status: 503, UpstreamAddr: secure}, outcome: OK, says: "192.0.2.6:443: answers in 0.0 ms, after a redirect to https"},
		"through a proxy":           {page: prober.FetchResult{Status: 503, UpstreamAddr: secure}, gate: viaProxy{egress: through}, outcome: OK, says: ", through the egress proxy proxy.lab.test"},
		"an address of the child's": {page: prober.FetchResult{Status: 503, UpstreamAddr: netip.MustParseAddrPort("198.51.100.1:1")}, outcome: OK, says: "192.0.2.6:80: answers in"},
		"not to be asked":           {page: prober.FetchResult{Cause: "refused"}, gate: viaProxy{err: hidden}, outcome: Skipped, says: "permission denied"},
		"not to be verified":        {page: prober.FetchResult{Cause: "tls-untrusted"}, gate: viaProxy{trustUnreadable: hidden}, outcome: OK, says: "cannot be verified: permission denied"},
		"not trusted":               {page: prober.FetchResult{Cause: "tls-untrusted", UpstreamAddr: secure, Details: cause.Details{Reason: cause.NoCertificate}}, outcome: Problem, id: findings.IngressTLSUntrusted, says: "192.0.2.6:443 is not trusted: it presents no certificate"},
		"not trusted, by a proxy":   {page: prober.FetchResult{Cause: "tls-untrusted", UpstreamAddr: secure, ViaEgressProxy: true}, outcome: Problem, id: findings.IngressTLSUntrusted, says: "egressProxy.trustedCA"},
		"another name":              {page: prober.FetchResult{Cause: "tls-name"}, outcome: Problem, id: findings.IngressTLSName},
		"another name than none":    {page: prober.FetchResult{Cause: "tls-name"}, names: []string{}, outcome: OK, says: "is not known"},
		"the route's own":           {page: prober.FetchResult{Status: 302, ResponseCause: "redirect-elsewhere"}, outcome: OK},
		"the PROXY protocol":        {page: prober.FetchResult{Status: 400, ResponseCause: "proxy-protocol-unexpected"}, outcome: Problem, id: findings.IngressPROXYProtocol},
		"the proxy wants others":    {page: prober.FetchResult{Cause: "egress-auth", ViaEgressProxy: true, Details: cause.Details{Reason: cause.ProxyAnswer, Number: 407}, Context: cause.Context{EgressProxies: map[netip.AddrPort]cause.EgressProxy{netip.AddrPortFrom(vip, 80): {Name: "p", Port: 1}}}}, outcome: Problem, id: findings.EgressAuth, says: "the egress proxy p:1 does not take"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.names == nil {
				tt.names = []string{"api.lab.test"}
			}
			h := &host{vips: keepalived.VIPs{Ingress: []netip.Addr{vip}}, config: config.Default()}
			h.report = func() (report.Report, error) { return report.Report{}, errors.New("it does not run") }
			h.observed = &observations{names: completed(tt.names), viaProxy: completed(tt.gate), ingressPages: map[netip.Addr]*fetchFuture{vip: completedFetch(tt.page)}}
			r := checkIngress(t.Context(), h)
			text := r.Text
			var id findings.ID
			for _, f := range r.Findings {
				id, text = f.ID, f.String()
			}
			if r.Outcome != tt.outcome || id != tt.id || !strings.Contains(text, tt.says) {
				t.Errorf("%s %s %q, want %s %s %q", r.Outcome, id, text, tt.outcome, tt.id, tt.says)
			}
		})
	}
}

// TestAttributeToEgress: an ingress without a way to it follows from a proxy that is not
// accepted, if that one is to lead there.
func TestAttributeToEgress(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*config.EgressProxy)
		want   bool
	}{
		"to be reached by it": {func(*config.EgressProxy) {}, true},
		"never by it":         {func(e *config.EgressProxy) { e.Upstream = config.EgressNever }, false},
		"no proxy for it":     {func(e *config.EgressProxy) { e.NoProxy = "203.0.113.0/24" }, false},
		"no proxy":            {func(e *config.EgressProxy) { e.HTTPProxy, e.NoProxy = "", "x" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := netip.MustParseAddrPort("203.0.113.6:80")
			h := &host{config: config.Default(), vips: keepalived.VIPs{Ingress: []netip.Addr{at.Addr()}}}
			h.config.VIPs.API = []netip.Addr{netip.MustParseAddr("192.0.2.5")}
			h.config.EgressProxy.Upstream, h.config.EgressProxy.HTTPProxy = config.EgressAuto, "http://192.0.2.31:3128"
			tt.change(&h.config.EgressProxy)
			a := ingressResponse{at, prober.FetchResult{Cause: "unreachable"}}
			f := h.attributeToEgress(a.newFinding(upstream.Unreachable), a)
			if slices.Contains(f.CausedBy, findings.EgressNotReady) != tt.want {
				t.Errorf("it follows from %q", f.CausedBy)
			}
		})
	}
}

// TestMemoize: two ports of an ingress go through one proxy.
func TestMemoize(t *testing.T) {
	t.Parallel()
	asked := 0
	ask := memoize(func(string) []netip.Addr { asked++; return nil })
	ask("a")
	ask("a")
	ask("b")
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}
