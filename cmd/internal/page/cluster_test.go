// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/page"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// clusterPage returns the page of two nodes that report, and one that does not, with name
// in every text.
func clusterPage(name string) []byte {
	first, second := hostReport(name), hostReport(name)
	second.Challenges.Total = 30
	vip := first.VIPs[0].Address
	status := report.ClusterStatus{
		Time: now,
		Condition: report.Condition{
			Type: report.ConditionType, Status: "False", Reason: "VIPHeldTwice", Message: name,
			LastTransitionTime: ago(time.Hour),
		},
		VIPs: []report.ClusterVIP{
			{
				Address: vip, Family: "IPv4", Holders: []string{"master0", "master1"}, Since: ago(20 * time.Minute),
				ReachableFrom: []string{"master2"}, Tested: ago(3 * time.Second),
			},
			{
				Address: netip.MustParseAddr("2001:db8::5"), Family: "IPv6", Holders: []string{},
				ReachableFrom: []string{"master0"}, UnreachableFrom: []string{"master1", "master2"},
			},
		},
		Nodes: []report.NodeStatus{
			{Name: "master0", Reported: true, Version: first.Version, Condition: first.Condition(), VIPs: first.VIPs},
			{Name: "master1", Reported: true, Version: second.Version, Condition: second.Condition(), VIPs: second.VIPs},
			{Name: "master2", Condition: report.Condition{
				Type: report.ConditionType, Status: "Unknown",
				Reason: report.NotReachable, Message: name,
			}},
		},
		Problems: []report.ClusterProblem{
			{
				ID: "vip-duplicate", Level: report.LevelProblem, Message: name, Remediation: name,
				Nodes: []string{"master0", "master1"},
			},
		},
	}
	return page.ForCluster(status, []page.Host{
		{Name: "master0", Status: first},
		{Name: "master1", Status: second},
		{Name: "master2", Error: name},
	}, now)
}

// TestClusterContents: a summary with the holders of each VIP, and a section for each node.
func TestClusterContents(t *testing.T) {
	t.Parallel()
	got := visible(parse(t, clusterPage("x")))
	for _, want := range []string{
		"Cluster with 3 control-plane nodes",
		"http01-proxyd cluster status: Cluster with 3 control-plane nodes", "VIPHeldTwice x HTTP01ChallengeProxyReady is False, in this state since 2026-03-04 11:30:00 UTC (60m). " +
			"Reported 2026-03-04 12:30:00 UTC.",
		"The nodes: master0 master1 master2",
		"problem vip-duplicate on master0, master1 x Fix: x",
		"192.0.2.5 master0, master1 20m 2026-03-04 12:10:00 reachable from master2 (3s ago) 2001:db8::5 unknown - not " +
			"reachable from master1, master2",
		"192.0.2.5 on master0 Held since 2026-03-04 12:10:00, 20m", "192.0.2.5 on master1 Held since",
		"master1 Serving 90m 2026-03-04 11:00:00 192.0.2.5 v1.2.3 x holds 192.0.2.5 x", "master2 NotReachable - - - x",
		"master2 No status x",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

// TestClusterHeldByAll: several holders of a VIP that BGP announces are no problem.
func TestClusterHeldByAll(t *testing.T) {
	t.Parallel()
	vip := report.ClusterVIP{
		Address: netip.MustParseAddr("192.0.2.5"), Family: "IPv4",
		Holders: []string{"master0", "master1"}, Management: report.ManagementBGP,
	}
	got := visible(parse(t, page.ForCluster(report.ClusterStatus{Time: now, VIPs: []report.ClusterVIP{vip}}, nil, now)))
	for _, want := range []string{"192.0.2.5 master0, master1 -"} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
}

// TestClusterName: the name of the cluster is what most nodes report.
func TestClusterName(t *testing.T) {
	t.Parallel()
	host := func(names ...string) page.Host {
		return page.Host{Status: report.Report{AcceptedHosts: report.AcceptedHosts{Names: names}}}
	}
	for want, hosts := range map[string][]page.Host{
		"paris.test": {host("api.paris.test", "vip.example.com"), host("api.paris.test")},
		"b.test":     {host("api.a.test", "api.a.test", "api.a.test"), host("api.b.test"), host("api.b.test")},
		"a.test":     {host("api.b.test"), host("api.a.test")},

		"Cluster with 0 control-plane nodes": {host("vip.example.com"), {Error: "e"}},
	} {
		got := visible(parse(t, page.ForCluster(report.ClusterStatus{Time: now}, hosts, now)))
		if !strings.HasPrefix(got, "http01-proxyd cluster status: "+want+" http01-proxyd cluster status "+want+" Created") {
			t.Errorf("%s: %s", want, got)
		}
	}
}
