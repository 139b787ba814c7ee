// SPDX-License-Identifier: Apache-2.0

package condition_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/condition"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestClusterStatus: the holders of the VIPs, and the problems with their IDs.
func TestClusterStatus(t *testing.T) {
	t.Parallel()
	const held4, standby4, standby6 = vip4 + " Held 3", vip4 + " Standby 2", vip6 + " Standby 6"
	serving, standby := host(t, "m0", report.Serving, 1, held4), host(t, "m1", report.Standby, 2, standby4)
	silent := condition.HostReport{Name: "m2", Problem: "no output within 1m0s", Remediation: "Increase --timeout."}
	lost := vip(vip4, 2)
	lost.Since = time.Time{} // it may still be on the silent host
	newer := host(t, "m1", report.Standby, 2, standby4)
	newer.Version = "1.1"
	ahead := host(t, "m0", report.Serving, 1, held4)
	ahead.Time = at(40)
	problem := func(id, level, message, remediation string, nodes ...string) report.ClusterProblem {
		return report.ClusterProblem{ID: id, Level: level, Message: message, Remediation: remediation, Nodes: nodes}
	}
	held, _ := findings.Lookup(findings.VIPDuplicate)
	silentProblem := problem("node-not-reporting", "warning", "m2: no output within 1m0s", "Increase --timeout.", "m2")
	silentProblem.Commands = []string{"oc debug node/m2 -- chroot /host http01-proxyd status"}
	for name, tt := range map[string]struct {
		hosts    []condition.HostReport
		status   string
		vips     []report.ClusterVIP
		problems []report.ClusterProblem
	}{
		"healthy": {[]condition.HostReport{standby, serving}, "True", []report.ClusterVIP{vip(vip4, 3, "m0")}, nil},
		"held by none": {
			[]condition.HostReport{standby, host(t, "m0", report.Standby, 1, vip4+" Standby 7")},
			"False",
			[]report.ClusterVIP{vip(vip4, 7)},
			[]report.ClusterProblem{problem("vip-unassigned", "problem", "no host holds 192.0.2.5",
				"Check keepalived on m0 and m1.", "m0", "m1")},
		},
		"held twice": {
			[]condition.HostReport{serving, host(t, "m1", report.Serving, 2, vip4+" Held 5")},
			"False",
			[]report.ClusterVIP{vip(vip4, 5, "m0", "m1")},
			[]report.ClusterProblem{problem("vip-duplicate", "problem", "192.0.2.5 is held by m0 and m1",
				held.Remediation, "m0", "m1")},
		},
		"BGP": {
			[]condition.HostReport{host(t, "m0", report.Serving, 1, held4+" BGP"), host(t, "m1", report.Serving, 2,
				vip4+" Held 5 BGP")},
			"True",
			[]report.ClusterVIP{byBGP(vip(vip4, 5, "m0", "m1"))},
			nil,
		},
		"BGP, held by none": {
			[]condition.HostReport{host(t, "m0", report.Standby, 1, standby4+" BGP"), host(t, "m1", report.Standby, 2, standby4+
				" BGP")},
			"False",
			[]report.ClusterVIP{byBGP(vip(vip4, 2))},
			[]report.ClusterProblem{problem("vip-unassigned", "problem", "no host holds 192.0.2.5",
				"Check kube-vip and the API server on m0 and m1.", "m0", "m1")},
		},
		"one family held by none": {
			[]condition.HostReport{host(t, "m0", report.Serving, 1, held4, standby6), host(t, "m1", report.Standby, 2, standby4,
				standby6)},
			"False",
			[]report.ClusterVIP{vip(vip4, 3, "m0"), vip(vip6, 6)},
			[]report.ClusterProblem{problem("vip-unassigned", "problem", "no host holds 2001:db8::5",
				"Check keepalived on m0 and m1.", "m0", "m1")},
		},
		"one is down": {
			[]condition.HostReport{silent, serving, standby},
			"Unknown",
			[]report.ClusterVIP{vip(vip4, 3, "m0")},
			[]report.ClusterProblem{silentProblem},
		},
		"the holder may be down": {
			[]condition.HostReport{standby, silent},
			"Unknown",
			[]report.ClusterVIP{lost},
			[]report.ClusterProblem{
				problem("vip-unassigned", "warning", "no host reports that it holds 192.0.2.5",
					"Solve the problems of m2 first: a VIP may be there.", "m2"),
				silentProblem,
			},
		},
		"not ready": {
			[]condition.HostReport{serving, host(t, "m1", report.PortInUse, 2, standby4)},
			"True",
			[]report.ClusterVIP{vip(vip4, 3, "m0")},
			[]report.ClusterProblem{problem("service-not-ready", "problem", "m1 is not ready (PortInUse): reason PortInUse",
				"Run http01-proxyd check on m1.", "m1")},
		},
		"an update": {
			[]condition.HostReport{serving, newer},
			"True",
			[]report.ClusterVIP{vip(vip4, 3, "m0")},
			[]report.ClusterProblem{problem("versions-differ", "warning", "the versions differ: 1.0 on m0, 1.1 on m1",
				"Complete the update of the hosts.", "m0", "m1")},
		},
		"other VIPs": {
			[]condition.HostReport{serving, host(t, "m1", report.Standby, 2)},
			"True",
			[]report.ClusterVIP{vip(vip4, 3, "m0")},
			[]report.ClusterProblem{problem("vips-differ", "warning", "the API VIPs differ: 192.0.2.5 on m0, none on m1",
				"Compare vips in the configuration of these hosts, and keepalived.conf or kube-vip's static pods.", "m0", "m1")},
		},
		"a clock": {
			[]condition.HostReport{ahead, standby},
			"True",
			[]report.ClusterVIP{vip(vip4, 3, "m0")},
			[]report.ClusterProblem{problem("clock-offset", "warning",
				"the report of m0 is from 2026-01-02T03:40:00Z: its clock is ahead by 30m0s, or the clock of this machine is behind", "Check the time servers of both.", "m0")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := condition.ClusterStatus(tt.hosts, at(10))
			if got.Condition.Status != tt.status {
				t.Errorf("condition %+v", got.Condition)
			}
			if diff := cmp.Diff(tt.vips, got.VIPs, cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("VIPs (-want +got):\n%s", diff)
			}
			commands := cmpopts.IgnoreFields(report.ClusterProblem{}, "Commands")
			if diff := cmp.Diff(tt.problems, got.Problems, cmpopts.EquateEmpty(), commands); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			for i, n := range got.Nodes {
				if i > 0 && got.Nodes[i-1].Name >= n.Name {
					t.Errorf("the nodes are not sorted: %+v", got.Nodes)
				}
				if n.Reported == (n.Name == "m2") || !n.Reported && (n.Condition.Status != "Unknown" ||
					n.Condition.Message != silent.Problem) {
					t.Errorf("%+v", n)
				}
			}
		})
	}
}

// TestProblemsOfBothFamilies: a fault of both address families is one problem, with the commands of each
// node and VIP. Those that show the state come first.
func TestProblemsOfBothFamilies(t *testing.T) {
	t.Parallel()
	both := func(state string) []string { return []string{vip4 + state, vip6 + state} }
	const query, remove = `sh -c 'ip -br address show to %s; crictl ps --name keepalived'`,
		`sh -c 'pgrep -x "keepalived|kube-vip" || ip -br address show to %s | while read -r link _ address _; ` +
			`do ip address delete "$address" dev "${link%%@*}"; done'`
	var deleted []string
	for _, form := range []string{query, remove} {
		for _, node := range []string{"m0", "m1"} {
			for _, vip := range []string{vip4, vip6} {
				deleted = append(deleted, "oc debug node/"+node+" -- chroot /host "+fmt.Sprintf(form, vip))
			}
		}
	}
	for name, tt := range map[string]struct {
		hosts    []condition.HostReport
		message  string
		commands []string
	}{
		"held twice": {
			[]condition.HostReport{
				host(t, "m0", report.Serving, 1, both(" Held 3")...), host(t, "m1", report.Serving, 2, both(" Held 5")...),
			},
			"192.0.2.5 and 2001:db8::5 are held by m0 and m1",
			deleted,
		},
		"held by none": {
			[]condition.HostReport{host(t, "m0", report.Standby, 1, both(" Standby 3")...)},
			"no host holds 192.0.2.5 or 2001:db8::5",
			[]string{`oc debug node/m0 -- chroot /host sh -c 'crictl ps -a --name "keepalived|kube-vip"; ip -br address'`},
		},
	} {
		problems := condition.ClusterStatus(tt.hosts, at(10)).Problems
		if len(problems) != 1 || problems[0].Message != tt.message {
			t.Fatalf("%s: %+v", name, problems)
		}
		if diff := cmp.Diff(tt.commands, problems[0].Commands); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// vip is a VIP whose state has not changed since that minute.
func vip(address string, minute int, holders ...string) report.ClusterVIP {
	family := "IPv4"
	if strings.Contains(address, ":") {
		family = "IPv6"
	}
	return report.ClusterVIP{
		Address: netip.MustParseAddr(address), Family: family,
		Holders: append([]string{}, holders...), Since: at(minute),
	}
}

// byBGP is a VIP that several hosts hold at once.
func byBGP(v report.ClusterVIP) report.ClusterVIP {
	v.Management = report.ManagementBGP
	return v
}
