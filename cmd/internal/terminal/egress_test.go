// SPDX-License-Identifier: Apache-2.0

package terminal_test

import (
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestEgressProxyThatDoesNotRespond: an accepted proxy is no success while requests through it fail.
func TestEgressProxyThatDoesNotRespond(t *testing.T) {
	t.Parallel()
	proxy := report.EgressSetting{HTTPProxy: "http://p:3128", Source: "/etc/mco/proxy.env"}
	b := newTracker()
	b.SetReconcileResult(servingResult(), start)
	b.SetEgress(report.EgressProxy{
		Upstream: "auto", Spec: proxy, Accepted: proxy,
		Routes: []report.EgressRoute{{Ingress: ingress.String(), Proxy: "http://p:3128", Addresses: []string{"192.0.2.9"}}},
	}, start)
	b.SetUpstreams([]report.Upstream{{
		Address: ingress, Checked: start, Cause: "egress-unreachable", Error: "The egress proxy p:3128 is not available",
	}}, start)
	shown := renderText(t, b.Report(report.Table{}), start, terminal.View{})
	for _, want := range []string{
		"State:          ✗ UpstreamUnreachable", "Ingress:        ✗ 192.0.2.6:80 fails [egress-unreachable]\n",
		"Egress proxy:   ✗ requests through it fail [egress-unreachable]\n", "\n  oc get proxy cluster -o yaml\n",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q:\n%s", want, shown)
		}
	}
	if strings.Contains(shown, "✓") || strings.Count(shown, "is not available") != 1 {
		t.Errorf("a success, or the cause twice:\n%s", shown)
	}
}

// TestEgressConditionAndRow: the condition and the row of each state.
func TestEgressConditionAndRow(t *testing.T) {
	t.Parallel()
	proxy := report.EgressSetting{HTTPProxy: "http://p:3128", HTTPSProxy: "http://p:3128", Source: "/etc/mco/proxy.env"}
	other := report.EgressSetting{HTTPSProxy: "https://xxxxx@q", Source: "configuration"}
	through := []report.EgressRoute{{
		Ingress: "198.51.100.6:443", Proxy: "http://p:3128",
		Addresses: []string{"192.0.2.9"},
	}}
	unresolved := []report.EgressRoute{{Ingress: "198.51.100.6:443", Proxy: "http://p:3128", Error: "resolve p: no"}}
	for name, tt := range map[string]struct {
		e       report.EgressProxy
		ready   string
		reason  report.Reason
		message string
		row     string
	}{
		"none": {
			report.EgressProxy{Upstream: "auto"},
			"True", report.EgressNotConfigured,
			"no egress proxy is configured", "- no egress proxy is configured",
		},
		"used": {
			report.EgressProxy{Upstream: "auto", Spec: proxy, Accepted: proxy, Routes: through},
			"True", report.EgressAccepted,
			"http://p:3128 (from /etc/mco/proxy.env) is in use: 198.51.100.6:443 through http://p:3128", "✓ http://p:3128",
		},
		"not resolved": {
			report.EgressProxy{Upstream: "auto", Spec: proxy, Accepted: proxy, Routes: unresolved},
			"True", report.EgressAccepted,
			"198.51.100.6:443 through http://p:3128 (resolve p: no)", "✗ Accepted [egress-unreachable]: http://p:3128",
		},
		"never": {
			report.EgressProxy{Upstream: "never", Spec: proxy, Accepted: proxy},
			"True", report.EgressDirect,
			"in use, and the ingress is reached directly (egressProxy.upstream is never)", "✓ http://p:3128",
		},
		"no route through it": {
			report.EgressProxy{Upstream: "auto", Spec: other, Accepted: other},
			"True", report.EgressDirect,
			"https://xxxxx@q for https (from configuration) is in use, and the ingress is reached directly (it is in the " +
				"no-proxy set, or the proxy is not for this scheme)", "✓ https://xxxxx@q",
		},
		"pending": {
			report.EgressProxy{
				Upstream: "auto", Spec: other, Accepted: proxy, Pending: true,
				Message: "https://a is not ready: no", Routes: through, Since: start, NextCheck: start.Add(90 * time.Second),
			},
			"False", report.EgressNotReady,
			"https://xxxxx@q for https (from configuration) is not accepted yet: https://a is not ready: no; http://p:3128 " +
				"(from /etc/mco/proxy.env) is in use",
			"✗ NotReady [egress-not-ready]: https://xxxxx@q for https (from configuration) is not accepted yet",
		},
		"first requests": {
			report.EgressProxy{Upstream: "auto", Spec: proxy, Pending: true},
			"False", report.EgressNotReady,
			"not accepted yet: the requests to its readiness endpoints are running; no proxy is in use", "- http://p:3128",
		},
		"rejected": {
			report.EgressProxy{
				Upstream: "auto", Accepted: proxy, InvalidInput: report.EgressInputFile,
				Message: "proxy.env: line 1: no",
			},
			"False", report.EgressInvalid,
			"the configured egress proxy is rejected: proxy.env: line 1: no; http://p:3128",
			"! InvalidProxy [proxy-file-invalid]: the configured egress proxy is rejected",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTracker()
			b.SetReconcileResult(servingResult(), start)
			b.SetEgress(tt.e, start)
			r := b.Report(report.Table{})
			for _, c := range r.Conditions {
				if c.Type != report.EgressConditionType {
					continue
				}
				if c.Status != tt.ready || c.Reason != tt.reason || !strings.Contains(c.Message, tt.message) {
					t.Errorf("got %+v, want %s %s %q", c, tt.ready, tt.reason, tt.message)
				}
			}
			if len(r.Conditions) != 2 {
				t.Errorf("the conditions are %+v", r.Conditions)
			}
			shown := renderText(t, r, start.Add(time.Minute), terminal.View{Wide: true})
			if !strings.Contains(shown, "Egress proxy:   "+tt.row) {
				t.Errorf("no row %q:\n%s", tt.row, shown)
			}
			if name == "pending" && !strings.Contains(shown, "configured 60s ago, next check in 30s") {
				t.Errorf("the row has no times:\n%s", shown)
			}
		})
	}
}
