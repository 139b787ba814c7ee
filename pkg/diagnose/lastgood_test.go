// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/discovery"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/network"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/ownership"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestLastGoodVIPs: while keepalived.conf is unusable, the checks use the VIPs that the
// service keeps.
func TestLastGoodVIPs(t *testing.T) {
	t.Parallel()
	api, ingress := netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("192.0.2.6")
	whole := keepalived.VIPs{API: []netip.Addr{api}, Ingress: []netip.Addr{ingress}}
	reported := func(reason report.Reason, vips keepalived.VIPs) report.Report {
		r := report.Report{Conditions: []report.Condition{{Type: report.ConditionType, Reason: reason}}}
		for _, a := range vips.API {
			r.VIPs = append(r.VIPs, report.VIP{Address: a})
		}
		for _, a := range vips.Ingress {
			r.Upstreams = append(r.Upstreams, report.Upstream{Address: netip.AddrPortFrom(a, 80)})
		}
		return r
	}
	none := keepalived.VIPs{}
	for name, tt := range map[string]struct {
		err    error
		report report.Report
		want   keepalived.VIPs
	}{
		"incomplete, and it serves":        {keepalived.ErrIncomplete, reported(report.Serving, whole), whole},
		"incomplete, and it is on standby": {keepalived.ErrIncomplete, reported(report.Standby, whole), whole},
		"incomplete from the start":        {keepalived.ErrIncomplete, reported(report.NoVIPs, none), none},
		"no VIPs any more":                 {keepalived.ErrNoAPIInstance, reported(report.NoVIPs, whole), none},
		"user-managed":                     {discovery.ErrUserManaged, reported(report.ExternalLoadBalancer, none), none},
		"no node":                          {discovery.ErrNoNode, reported(report.Serving, whole), none},
	} {
		h := &host{vipsErr: tt.err, report: func() (report.Report, error) { return tt.report, nil }}
		h.useLastGoodVIPs()
		if diff := cmp.Diff(tt.want, h.vips, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got, want := len(h.servedVIPs()) > 0, len(tt.want.API) > 0; got != want || h.noUsableVIPs() == want {
			t.Errorf("%s: served VIPs %v", name, h.servedVIPs())
		}
	}
}

// TestNameNotAllowed: a name missing in hosts is detected without a token.
func TestNameNotAllowed(t *testing.T) {
	t.Parallel()
	vip := netip.MustParseAddr("192.0.2.5")
	for name, tt := range map[string]struct {
		name  string
		hosts []string
		held  []netip.Addr
		want  findings.Level
	}{
		"any name":       {"api.lab.test", nil, []netip.Addr{vip}, ""},
		"listed":         {"api.lab.test", []string{"other.example.com", "api.lab.test"}, []netip.Addr{vip}, ""},
		"not listed":     {"api.lab.test", []string{"other.example.com"}, []netip.Addr{vip}, findings.Problem},
		"on a standby":   {"api.lab.test", []string{"other.example.com"}, nil, findings.Warning},
		"without a name": {"", []string{"other.example.com"}, []netip.Addr{vip}, ""},
	} {
		h := hostWithChallenge(protocol.FetchResult{}, protocol.FetchResult{})
		h.Token, h.observed.challengePages = "", nil
		h.APIName, h.config.Hosts, h.ownership = tt.name, tt.hosts, ownership.Decision{Held: tt.held}
		var got findings.Level
		for _, f := range checkSelfCheck(t.Context(), h).Findings {
			if f.ID != findings.NameNotAllowed || got != "" {
				t.Errorf("%s: %+v", name, f)
			}
			got = f.Level
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// TestLinkDown: a fault that a VIP's link explains is not reported besides. Other
// faults are.
func TestLinkDown(t *testing.T) {
	t.Parallel()
	vip := netip.MustParseAddr("192.0.2.5")
	down := network.Holders{Local: true, Link: "lo", LinkDown: true}
	for name, tt := range map[string]struct {
		page protocol.FetchResult
		want Outcome
	}{
		"no route":        {protocol.FetchResult{Cause: "unreachable", Details: cause.DetailsOf(unix.ENETUNREACH)}, Skipped},
		"a firewall":      {protocol.FetchResult{Cause: "unreachable", Details: cause.DetailsOf(unix.EHOSTUNREACH)}, Problem},
		"nothing listens": {protocol.FetchResult{Cause: "refused"}, Problem},
	} {
		h := hostWithIngress(tt.page)
		h.observed.vipHolders = map[netip.Addr]*future[network.Holders]{vip: completed(down)}
		f, _ := down.Finding(vip, "API")
		cause := findingsResult([]findings.Finding{f}, "")
		cause.Name = "vip-holder"
		all := withoutConsequences([]Result{cause, checkIngress(t.Context(), h)})
		if all[1].Outcome != tt.want {
			t.Errorf("%s: %+v", name, all[1])
		}
	}
}
