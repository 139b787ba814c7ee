// SPDX-License-Identifier: Apache-2.0

package condition_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/condition"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestAggregateHTTP01Proxy: Ready is the condition of the cluster, and Degraded also
// reports hosts that could not serve a VIP.
func TestAggregateHTTP01Proxy(t *testing.T) {
	t.Parallel()
	const held, standby, served = vip4 + " Held", vip4 + " Standby", "192.0.2.5 is held and served by m0"
	serving, ready := host(t, "m0", report.Serving, 1, held), host(t, "m1", report.Standby, 2, standby)
	silent := condition.HostReport{Name: "m2", Problem: "no report", Observed: at(4)}
	for name, tt := range map[string]struct {
		hosts []condition.HostReport
		want  []string // type, status, reason, minute and message
	}{
		"all ready": {
			[]condition.HostReport{serving, ready},
			[]string{"Ready True Serving 1 " + served + "; 2 hosts have reported", "Degraded False Serving 2 " + served + "; 2 hosts have reported"},
		},
		"nothing to do": {
			[]condition.HostReport{host(t, "m0", report.NotRequired, 3, vip4+" NotRequired")},
			[]string{"Ready True NotRequired 3 reason NotRequired; 1 host has reported", "Degraded False NotRequired 3 reason NotRequired; 1 host has reported"},
		},
		"not served": {
			[]condition.HostReport{host(t, "m0", report.UpstreamUnreachable, 6, held), ready},
			[]string{
				"Ready False UpstreamUnreachable 6 m0 is not ready (UpstreamUnreachable): reason UpstreamUnreachable; 2 hosts have reported",
				"Degraded True UpstreamUnreachable 6 m0 is not ready (UpstreamUnreachable): reason UpstreamUnreachable; 2 hosts have reported",
			},
		},
		"held by no host": {
			[]condition.HostReport{ready},
			[]string{
				"Ready False VIPNotHeld 2 no host holds 192.0.2.5: check keepalived on m1; 1 host has reported",
				"Degraded True VIPNotHeld 2 no host holds 192.0.2.5: check keepalived on m1; 1 host has reported",
			},
		},
		"served, but not after a failover": {
			[]condition.HostReport{serving, host(t, "m1", report.PortInUse, 7, standby)},
			[]string{
				"Ready True Serving 1 " + served + "; m1 is not ready (PortInUse): reason PortInUse; 2 hosts have reported",
				"Degraded True PortInUse 7 m1 is not ready (PortInUse): reason PortInUse; 2 hosts have reported",
			},
		},
		"served, one is disabled": {
			[]condition.HostReport{serving, host(t, "m1", report.Disabled, 7)},
			[]string{
				"Ready True Serving 1 " + served + "; m1 is not ready (Disabled): reason Disabled; 2 hosts have reported",
				"Degraded False Serving 7 " + served + "; m1 is not ready (Disabled): reason Disabled; 2 hosts have reported",
			},
		},
		"disabled": {
			[]condition.HostReport{host(t, "m0", report.Disabled, 5)},
			[]string{"Ready False Disabled 5 m0 is not ready (Disabled): reason Disabled; 1 host has reported", "Degraded False Disabled 5 m0 is not ready (Disabled): reason Disabled; 1 host has reported"},
		},
		"starting": {
			[]condition.HostReport{host(t, "m0", report.Starting, 5, held)},
			[]string{"Ready False Starting 5 m0 is not ready (Starting): reason Starting; 1 host has reported", "Degraded False Starting 5 m0 is not ready (Starting): reason Starting; 1 host has reported"},
		},
		"one has not answered": {
			[]condition.HostReport{serving, silent},
			[]string{"Ready Unknown NotReachable 4 m2: no report; 1 of 2 hosts have reported", "Degraded Unknown NotReachable 4 m2: no report; 1 of 2 hosts have reported"},
		},
		"one has not answered, one fails": {
			[]condition.HostReport{serving, host(t, "m1", report.InvalidConfig, 3, standby), silent},
			[]string{
				"Ready Unknown NotReachable 4 m1 is not ready (InvalidConfig): reason InvalidConfig; m2: no report; 2 of 3 hosts have reported",
				"Degraded True InvalidConfig 3 m1 is not ready (InvalidConfig): reason InvalidConfig; m2: no report; 2 of 3 hosts have reported",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := condition.AggregateHTTP01Proxy(tt.hosts, at(59))
			var got []string
			for _, c := range all {
				got = append(got, fmt.Sprintf("%s %s %s %d %s", c.Type, c.Status, c.Reason, c.LastTransitionTime.Minute(), c.Message))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
