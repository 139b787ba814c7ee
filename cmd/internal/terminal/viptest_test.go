// SPDX-License-Identifier: Apache-2.0

package terminal_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestVIPRow: the row of a VIP shows on the holder who tests it, and elsewhere the result.
func TestVIPRow(t *testing.T) {
	t.Parallel()
	vip, checked := netip.MustParseAddr("192.0.2.5"), start.Add(-3*time.Second)
	source := func(address string, last time.Time) report.TestSource {
		return report.TestSource{Address: netip.MustParseAddr(address), Count: 1, Last: last}
	}
	for name, tt := range map[string]struct {
		state report.VIPState
		tests []report.VIPTest
		from  []report.TestSource
		want  string
	}{
		"held, not tested": {report.VIPHeld, nil, nil, "API VIP:        192.0.2.5 held here\n"},
		"held": {
			report.VIPHeld, nil,
			[]report.TestSource{
				source("192.0.2.11", checked.Add(-time.Second)), source("192.0.2.12", checked),
				source("192.0.2.13", checked.Add(-time.Hour)), source("2001:db8::1", checked),
			},
			"API VIP:        192.0.2.5 held here, reachable from 192.0.2.11, 192.0.2.12 (3s ago)\n",
		},
		"answered": {
			report.VIPStandby,
			[]report.VIPTest{{VIP: vip, Result: report.VIPAnswered, Checked: checked}},
			nil,
			"API VIP:        ✓ 192.0.2.5 not on this host, reachable from here (3s ago)\n",
		},
		"a failure": {
			report.VIPStandby,
			[]report.VIPTest{{VIP: vip, Result: report.VIPRefused, Checked: checked, Failures: 1}},
			nil,
			"API VIP:        - 192.0.2.5 not on this host, the connection is refused (3s ago)\n",
		},
		"a finding": {
			report.VIPStandby,
			[]report.VIPTest{{
				VIP: vip, Result: report.VIPRefused, Checked: checked, Failures: 4,
				Cause: "vip-unreachable-from-here",
			}},
			nil,
			"API VIP:        ✗ 192.0.2.5 not on this host [vip-unreachable-from-here]: " +
				"the connection is refused, 4 times in a row (3s ago)\n",
		},
		"two hosts": {
			report.VIPStandby,
			[]report.VIPTest{{VIP: vip, Result: report.VIPTwoHosts, Checked: checked, Cause: "vip-two-hosts"}},
			nil,
			"API VIP:        ✗ 192.0.2.5 not on this host [vip-two-hosts]: two hosts answer (3s ago)\n",
		},
		"another VIP": {
			report.VIPStandby,
			[]report.VIPTest{{VIP: netip.MustParseAddr("192.0.2.7"), Result: report.VIPRefused}},
			nil,
			"API VIP:        192.0.2.5 not on this host\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := report.Report{
				Conditions: []report.Condition{{Type: report.ConditionType, Status: "True", Reason: report.Serving}},
				VIPs:       []report.VIP{{Address: vip, State: tt.state}}, VIPTests: tt.tests,
				TestRequests: report.TestRequests{Sources: tt.from},
			}
			if shown := renderText(t, r, start, terminal.View{Wide: true}); !strings.Contains(shown, tt.want) {
				t.Errorf("no row %q:\n%s", tt.want, shown)
			}
		})
	}
}

// TestClusterVIPRow: the row of a VIP names the nodes that do not reach it, or else those that do.
func TestClusterVIPRow(t *testing.T) {
	t.Parallel()
	vip := func(address string, reachable, unreachable []string) report.ClusterVIP {
		return report.ClusterVIP{
			Address: netip.MustParseAddr(address), Family: "IPv4", Holders: []string{"master0"}, Since: start.Add(-time.Hour),
			ReachableFrom: reachable, UnreachableFrom: unreachable, Tested: start.Add(-3 * time.Second),
		}
	}
	untested := report.ClusterVIP{
		Address: netip.MustParseAddr("192.0.2.5"), Holders: []string{"master0"},
		Since: start.Add(-time.Hour),
	}
	for name, tt := range map[string]struct {
		vips []report.ClusterVIP
		want []string
	}{
		"tested": {
			[]report.ClusterVIP{
				vip("192.0.2.5", []string{"master1", "master2"}, nil),
				vip("192.0.2.7", []string{"master1"}, []string{"master2"}),
				vip("192.0.2.9", nil, nil),
			},
			[]string{
				"192.0.2.5  master0  60m  reachable from master1, master2 (3s ago)\n",
				"192.0.2.7  master0  60m  not reachable from master2; reachable from master1 (3s ago) [vip-unreachable-from-here]\n",
				"192.0.2.9  master0  60m  no answer to another node's last test (3s ago)\n",
			},
		},
		"older releases": {[]report.ClusterVIP{untested}, []string{"API VIP    HELD BY  FOR\n192.0.2.5  master0  60m\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var shown strings.Builder
			status := report.ClusterStatus{Time: start, VIPs: tt.vips}
			if err := terminal.ClusterStatus(status, nil).Write(&shown, terminal.View{}); err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.want {
				if !strings.Contains(shown.String(), want) {
					t.Errorf("no row %q:\n%s", want, shown.String())
				}
			}
		})
	}
}
