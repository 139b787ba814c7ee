// SPDX-License-Identifier: Apache-2.0

package condition_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/condition"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/nodes"
)

// TestVIPTests: which hosts reach a VIP, and what their tests show together.
func TestVIPTests(t *testing.T) {
	t.Parallel()
	const base = `{"conditions": [{"type": "HTTP01ChallengeProxyReady", "status": "True", "reason": "%s", "message": "m"}], "vips": [{"address": "192.0.2.5", "state": "%s", "management": "%s"}], "vipTests": [%s]}`
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	test := func(result, cause, instance string, since, checked int) string {
		at := func(seconds int) string { return now.Add(time.Duration(seconds) * time.Second).Format(time.RFC3339) }
		return fmt.Sprintf(
			`{"vip": "192.0.2.5", "result": %q, "cause": %q, "instance": %q, "since": %q, "instanceSince": %q, "checked": %q, "failures": 3}`, result, cause, instance, at(since), at(since), at(checked))
	}
	const unreachable = "vip-unreachable-from-here"
	for name, tt := range map[string]struct {
		management  string
		tests       [2]string // of master1 and master2
		reachable   []string
		unreachable []string
		problems    []string
	}{
		"both reach it": {
			"",
			[2]string{test("answered", "", "a", -60, -3), test("answered", "", "a", -50, -4)},
			[]string{"master1", "master2"},
			[]string{},
			nil,
		},
		"one does not": {"", [2]string{
			test("timed-out", unreachable, "", -60, -3),
			test("answered", "", "a", -50, -4),
		}, []string{"master2"}, []string{"master1"}, []string{unreachable}},
		"none does": {
			"",
			[2]string{
				test("timed-out", unreachable, "", -60, -3),
				test("refused", unreachable, "", -50, -4),
			},
			[]string{},
			[]string{"master1", "master2"},
			[]string{unreachable, unreachable},
		},
		"first failures":   {"", [2]string{test("timed-out", "", "", -60, -3), ""}, []string{}, []string{}, nil},
		"an older release": {"", [2]string{"", ""}, []string{}, []string{}, nil},
		"own rules": {
			"",
			[2]string{test("not-sent", "vip-test-not-sent", "", -60, -3), ""},
			[]string{},
			[]string{},
			[]string{"vip-test-not-sent"},
		},
		"two services at once": {"", [2]string{
			test("answered", "", "a", -60, -3),
			test("answered", "", "b", -50, -4),
		}, []string{"master1", "master2"}, []string{}, []string{"vip-two-hosts"}},
		"two services, BGP": {"BGP", [2]string{
			test("answered", "", "a", -60, -3),
			test("answered", "", "b", -50, -4),
		}, []string{"master1", "master2"}, []string{}, nil},
		"a restart between the tests": {"", [2]string{
			test("answered", "", "a", -60, -10),
			test("answered", "", "b", -8, -4),
		}, []string{"master1", "master2"}, []string{}, nil},
		"a holder of an older release, then a newer one": {"", [2]string{
			test("answered", "", "", -60, -3),
			test("answered", "", "b", -50, -4),
		}, []string{"master1", "master2"}, []string{}, nil},
		"a restart, and a host that has not reached the VIP since": {
			"",
			[2]string{test("timed-out", unreachable, "a", -3600, -3), test("answered", "", "b", -300, -4)},
			[]string{"master2"},
			[]string{"master1"},
			[]string{unreachable},
		},
		"a restart, and a first failure": {"", [2]string{
			test("timed-out", "", "a", -3600, -3),
			test("answered", "", "b", -300, -4),
		}, []string{"master2"}, []string{}, nil},
		"a restart, and a host whose own rules drop the request": {
			"",
			[2]string{test("not-sent", "vip-test-not-sent", "a", -3600, -3), test("answered", "", "b", -300, -4)},
			[]string{"master2"},
			[]string{},
			[]string{"vip-test-not-sent"},
		},
		"one host sees both": {
			"",
			[2]string{test("two-hosts", "vip-two-hosts", "a", -60, -3), ""},
			[]string{"master1"},
			[]string{},
			[]string{"vip-two-hosts"},
		},
		"unreachable, then not sent": {
			"",
			[2]string{test("not-sent", unreachable, "", -60, -3), ""},
			[]string{},
			[]string{"master1"},
			[]string{unreachable},
		},
		"the VIP moves away and back": {"", [2]string{test("answered", "", "a", -999, -1), test("answered", "", "b", -16,
			-7)}, []string{"master1", "master2"}, []string{}, nil},
		"two hosts, and a failure": {
			"",
			[2]string{test("timed-out", "vip-two-hosts", "a", -60, -3), ""},
			[]string{},
			[]string{},
			[]string{"vip-two-hosts"},
		},
		"an unknown result": {"", [2]string{test("invented", "invented", "a", -60, -3), ""}, []string{}, []string{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var hosts []condition.HostReport
			for i, text := range []string{
				fmt.Sprintf(base, "Serving", "Held", tt.management, ""),
				fmt.Sprintf(base, "Standby", "Standby", tt.management, tt.tests[0]), fmt.Sprintf(base, "Standby", "Standby",
					tt.management, tt.tests[1]),
			} {
				hosts = append(hosts, condition.Read(nodes.Output{Node: fmt.Sprintf("master%d", i), Document: []byte(text)}))
			}
			s := condition.ClusterStatus(hosts, now)
			var problems []string
			for _, p := range s.Problems {
				problems = append(problems, p.ID)
			}
			if diff := cmp.Diff(tt.problems, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([][]string{tt.reachable, tt.unreachable}, [][]string{
				s.VIPs[0].ReachableFrom,
				s.VIPs[0].UnreachableFrom,
			}); diff != "" {
				t.Errorf("reachable, unreachable (-want +got):\n%s", diff)
			}
		})
	}
}
