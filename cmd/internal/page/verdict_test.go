// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/page"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const day = 24 * time.Hour

// healthy is the report of a host without a problem, which holds one VIP and tests the other.
func healthy() report.Report {
	vip, other := netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("2001:db8::5")
	return report.Report{
		Time: now, Version: "v1.2.3",
		Conditions: []report.Condition{
			report.Condition{Type: report.ConditionType}.Next(true, report.Serving, "holds 192.0.2.5", ago(day)),
		},
		VIPs: []report.VIP{
			{Address: vip, Family: "IPv4", State: report.VIPHeld, Since: ago(day)},
			{Address: other, Family: "IPv6", State: report.VIPStandby, Since: ago(day)},
		},
		VIPTests: []report.VIPTest{{VIP: other, Result: report.VIPAnswered, Checked: ago(time.Second)}},
		Table:    report.Table{Present: true, Owned: true, Port: 8888, Elements: []netip.Addr{vip}},
		Upstreams: []report.Upstream{
			{Address: netip.MustParseAddrPort("192.0.2.6:80"), Reachable: true, Checked: ago(time.Second)},
			{Address: netip.MustParseAddrPort("[2001:db8::6]:80"), Reachable: true, Checked: ago(time.Second)},
		},
		Certificates: []report.Certificate{{
			Address: "192.0.2.5:6443", Name: "api.example.com", Issuer: "R11", NotBefore: ago(11 * day), NotAfter: now.Add(79 * day),
			Checked: ago(time.Minute),
		}},
		SelfTests: []report.SelfTest{{VIP: vip, OK: true, Since: ago(time.Hour), Checked: ago(time.Second)}},
		Challenges: report.Challenges{Total: 2, Recent: []report.RecentChallenge{
			{
				Time: ago(2 * time.Hour), Status: 502, Outcome: report.UpstreamError, Cause: "ingress-refused", Detail: "refused",
				ClientKind: report.CertManager,
			},
			{
				Time: ago(time.Hour), Status: 200, Outcome: report.Answered, Upstream: "192.0.2.6:80",
				ClientKind: report.CertManager,
			},
		}},
		Config:        report.Config{Source: "file", Path: "/etc/http01-proxyd/config.yaml"},
		AcceptedHosts: report.AcceptedHosts{Names: []string{"api.example.com"}, Source: report.HostsAPIName},
		Metrics:       report.Metrics{Address: ":9443", Served: true},
		Trust:         report.Trust{Kind: report.TrustAdmin, Source: "/etc/ca.pem"},
		EgressProxy:   report.EgressProxy{Upstream: "auto"},
	}
}

// faults are the faults that a report can show, by the label of the row that is marked; "" for the
// state itself.
func faults() map[string][]func(*report.Report) {
	state := func(status string, reason report.Reason) func(*report.Report) {
		return func(r *report.Report) { r.Conditions[0].Status, r.Conditions[0].Reason = status, reason }
	}
	part := func(kind string, reason report.Reason) report.Condition {
		return report.Condition{Type: kind}.Next(false, reason, "m", ago(time.Hour))
	}
	vipTest := func(result report.VIPTestResult, failures int, cause findings.ID) func(*report.Report) {
		return func(r *report.Report) {
			r.VIPTests[0].Result, r.VIPTests[0].Failures, r.VIPTests[0].Cause = result, failures, string(cause)
		}
	}
	certificate := func(change func(*report.Certificate)) func(*report.Report) {
		return func(r *report.Report) { change(&r.Certificates[0]) }
	}
	return map[string][]func(*report.Report){
		"": {
			state("False", report.Starting), state("False", report.InvalidConfig), state("False", report.PortInUse),
			state("False", report.UpstreamUnreachable), state("False", report.ExternalLoadBalancer),
			state("False", report.Disabled), state("False", "OfAnotherRelease"),
			func(r *report.Report) { r.OwnRequests = "requests of this host do not reach the service" },
		},
		"API VIP": {
			vipTest(report.VIPTimedOut, 3, findings.VIPUnreachableFromHere),
			vipTest(report.VIPTwoHosts, 0, findings.VIPTwoHosts),
			vipTest(report.VIPNotSent, 3, findings.VIPTestNotSent),
		},
		"Ingress": {func(r *report.Report) {
			r.Upstreams[1] = report.Upstream{
				Address: r.Upstreams[1].Address, Checked: now, Cause: "ingress-refused", Error: "refused",
			}
		}},
		"Certificate": {
			certificate(func(c *report.Certificate) { c.Error = "refused" }),
			certificate(func(c *report.Certificate) { c.NotBefore, c.NotAfter = ago(70*day), now.Add(20*day) }),
			certificate(func(c *report.Certificate) { c.NotBefore, c.NotAfter = ago(88*day), now.Add(2*day) }),
			certificate(func(c *report.Certificate) { c.NotBefore, c.NotAfter = ago(91*day), ago(day) }),
			certificate(func(c *report.Certificate) { c.NotBefore, c.NotAfter = now.Add(day), now.Add(91*day) }),
			certificate(func(c *report.Certificate) { c.FailedRenewals, c.LastFailure = 1, ago(time.Hour) }),
		},
		"Self-test": {func(r *report.Report) {
			r.SelfTests[0].OK, r.SelfTests[0].Cause, r.SelfTests[0].Error = false, "ingress-timeout", "e"
		}},
		"Trust": {
			func(r *report.Report) {
				r.Trust = report.Trust{Kind: report.TrustNone, Error: "e"}
				r.Conditions = append(r.Conditions, part(report.TrustConditionType, report.NothingTrusted))
			},
			func(r *report.Report) {
				r.Trust = report.Trust{Kind: report.TrustLastGood, Error: "e"}
				r.Conditions = append(r.Conditions, part(report.TrustConditionType, report.TrustRejected))
			},
			func(r *report.Report) { r.Trust.IgnoredTotal = 1 },
		},
		"Egress proxy": {
			func(r *report.Report) {
				r.EgressProxy.Pending, r.EgressProxy.Message = true, "e"
				r.Conditions = append(r.Conditions, part(report.EgressConditionType, report.EgressNotReady))
			},
			func(r *report.Report) {
				r.EgressProxy.InvalidInput = report.EgressInputTrustedCA
				r.Conditions = append(r.Conditions, part(report.EgressConditionType, report.EgressInvalid))
			},
			func(r *report.Report) {
				r.EgressProxy.Accepted.HTTPProxy = "http://192.0.2.9:3128"
				r.EgressProxy.Routes = []report.EgressRoute{{Error: "e"}}
			},
		},
		"Configuration": {func(r *report.Report) {
			r.Config.Error = "e"
			state("False", report.InvalidConfig)(r)
		}},
		"Metrics": {func(r *report.Report) { r.Metrics.Served, r.Metrics.Error = false, "e" }},
		"Last challenge": {func(r *report.Report) {
			last := &r.Challenges.Recent[1]
			last.Status, last.Cause, last.Detail = 503, "response-status", "d"
		}},
	}
}

// TestOneVerdict: the text and the page of a status, of a check and of a cluster begin with a level
// that is as bad as the worst mark and the worst problem below. Nothing else reports success as a
// whole.
func TestOneVerdict(t *testing.T) {
	t.Parallel()
	expectVerdict(t, "healthy", section.Good, healthy())
	for label, all := range faults() {
		for _, change := range all {
			r := healthy()
			change(&r)
			worst := section.Good
			var labels []string
			for _, row := range section.Host(r, now)[0].Rows {
				if row.Level == section.Bad || row.Level == section.Warning {
					labels = append(labels, row.Label)
				}
				if row.Level == section.Bad || row.Level == section.Warning && worst == section.Good {
					worst = row.Level
				}
			}
			if label != "" && !slices.Contains(labels, label) {
				t.Errorf("%s: marked are %q", label, labels)
			}
			if s := section.HostState(r, now); len(s.Problems) == 0 || s.Level == section.Good ||
				worst == section.Bad && s.Level != section.Bad {
				t.Errorf("%s: the state is %s with %d problems, and a row is %s", label, s.Level, len(s.Problems), worst)
			}
			expectVerdict(t, label, section.HostState(r, now).Level, r)
		}
	}
	labels := map[string]bool{}
	for _, row := range section.Host(healthy(), now)[0].Rows {
		if row.Level == section.Good {
			labels[row.Label] = true
		}
	}
	for label := range labels {
		if len(faults()[label]) == 0 {
			t.Errorf("no fault of the row %q, which can be good", label)
		}
	}
}

// expectVerdict expects a level as the verdict of each text and page about a host.
func expectVerdict(t *testing.T, name string, want section.Level, r report.Report) {
	t.Helper()
	var status strings.Builder
	if err := terminal.Report(r, now).Write(&status, terminal.View{}); err != nil {
		t.Fatal(err)
	}
	if line, _, _ := strings.Cut(status.String(), "\n"); !strings.Contains(line, " "+want.Sign()+" ") {
		t.Errorf("%s: the text begins with %q, want %s", name, line, want.Sign())
	}
	root := parse(t, page.ForHost(page.Host{Name: "a", Status: r}, now))
	if diff := cmp.Diff([]section.Level{want}, verdicts(root)); diff != "" {
		t.Errorf("%s: status (-want +got):\n%s", name, diff)
	}
	if want != section.Good && strings.Contains(visible(root), "No problem") {
		t.Errorf("%s: a text claims that there is no problem", name)
	}
	// Nothing reports success above a problem that the service reports.
	checked := page.Host{Name: "a", Status: r, Check: &result.Report{Outcome: report.CheckOK, Summary: "No problems on a."}}
	root = parse(t, page.ForHost(checked, now))
	if diff := cmp.Diff([]section.Level{want}, verdicts(root)); diff != "" {
		t.Errorf("%s: check (-want +got):\n%s", name, diff)
	}
	s := report.ClusterStatus{
		Time: now, Condition: r.Condition(),
		Nodes: []report.NodeStatus{{Name: "a", Reported: true, Condition: r.Condition(), VIPs: r.VIPs}},
	}
	for _, p := range section.HostState(r, now).Problems {
		p.Nodes = []string{"a"}
		s.Problems = append(s.Problems, p)
	}
	var cluster strings.Builder
	if err := terminal.ClusterStatus(s, nil).Write(&cluster, terminal.View{}); err != nil {
		t.Fatal(err)
	}
	line, rest, _ := strings.Cut(cluster.String(), "\n")
	if !strings.Contains(line, " "+want.Sign()+" ") || want != section.Good && strings.Contains(rest, section.Good.Sign()) {
		t.Errorf("%s: the text of the cluster, want %s:\n%s", name, want.Sign(), cluster.String())
	}
	root = parse(t, page.ForCluster(s, []page.Host{{Name: "a", Status: r}}, now))
	if diff := cmp.Diff([]section.Level{want, want}, verdicts(root)); diff != "" {
		t.Errorf("%s: cluster (-want +got):\n%s", name, diff)
	}
}

// verdicts are the levels of the cards with a state, in their order.
func verdicts(root *html.Node) (all []section.Level) {
	for n := range root.Descendants() {
		if level, is := strings.CutPrefix(attributes(n)["class"], "state "); is {
			all = append(all, section.Level(level))
		}
	}
	return all
}

// TestVerdictOfClusterCheck: text and page have one level, and it is good only without a finding.
func TestVerdictOfClusterCheck(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[report.CheckOutcome]section.Level{
		report.CheckOK: section.Good, report.CheckWarning: section.Warning, report.CheckIncomplete: section.Warning,
		report.CheckProblem: section.Bad,
	} {
		c := report.ClusterCheck{
			Time: now, Outcome: outcome, Summary: "s",
			Nodes: []report.NodeCheck{{Name: "a", Reported: true, Outcome: outcome}},
		}
		level := map[section.Level]string{section.Warning: report.LevelWarning, section.Bad: report.LevelProblem}[want]
		if level != "" && outcome != report.CheckIncomplete {
			c.Findings = []report.ClusterProblem{{ID: "dns-no-record", Level: level}}
		}
		var text strings.Builder
		if err := terminal.ClusterCheck(c).Write(&text, terminal.View{}); err != nil {
			t.Fatal(err)
		}
		line, _, _ := strings.Cut(text.String(), "\n")
		got := verdicts(parse(t, page.ForClusterCheck("", c, now)))
		if diff := cmp.Diff([]section.Level{want}, got); diff != "" || !strings.Contains(line, " "+want.Sign()+" ") {
			t.Errorf("%s: the text begins with %q (-want +got):\n%s", outcome, line, diff)
		}
	}
}
