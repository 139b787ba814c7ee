// SPDX-License-Identifier: Apache-2.0

package vips

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
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
		"user-managed":                     {ErrUserManaged, reported(report.ExternalLoadBalancer, none), none},
		"no node":                          {ErrNoNode, reported(report.Serving, whole), none},
	} {
		v := VIPs{Err: tt.err}
		if _, faulty := v.Fault(Source{}); faulty {
			v = v.WithLastGood(tt.report)
		}
		if diff := cmp.Diff(tt.want, v.VIPs, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got, want := len(v.Served()) > 0, len(tt.want.API) > 0; got != want || v.Unusable() == want {
			t.Errorf("%s: served VIPs %v", name, v.Served())
		}
	}
}
