// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

var now = time.Date(2026, 3, 4, 12, 30, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// hostReport returns the report of a host that has taken over a VIP, with name in every
// field that a program or the network composes.
func hostReport(name string) report.Report {
	vip, other := netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("2001:db8::5")
	return report.Report{
		Time: now, Version: "v1.2.3 " + name, Build: report.Build{Revision: "0123456", GoVersion: "go1.26"},
		Conditions: []report.Condition{
			{
				Type: report.ConditionType, Status: "True", Reason: report.Serving, Message: "holds 192.0.2.5 " + name,
				LastTransitionTime: ago(90 * time.Minute),
			},
			{
				Type: report.TrustConditionType, Status: "False", Reason: report.TrustRejected, Message: name,
				LastTransitionTime: ago(time.Hour),
			},
		},
		VIPs: []report.VIP{
			{Address: vip, Family: "IPv4", State: report.VIPHeld, Since: ago(20 * time.Minute)},
			{Address: other, Family: "IPv6", State: report.VIPStandby, Since: ago(2 * time.Hour)},
		},
		VIPTests: []report.VIPTest{
			{
				VIP: other, Result: report.VIPTimedOut, Checked: ago(3 * time.Second), Failures: 4,
				Cause: "vip-unreachable-from-here", Error: name,
			},
		},
		TestRequests: report.TestRequests{Sources: []report.TestSource{{
			Address: netip.MustParseAddr("192.0.2.11"),
			Last:    ago(4 * time.Second),
		}}},
		History: []report.Change{
			{Time: ago(2 * time.Hour), Condition: report.ConditionType, To: "Starting"},
			{Time: ago(2*time.Hour - time.Second), VIP: vip, To: "Standby"},
			{Time: ago(2*time.Hour - time.Second), VIP: other, To: "Standby"},
			{Time: ago(2*time.Hour - time.Second), Condition: report.ConditionType, From: "Starting", To: "Standby"},
			{Time: ago(50 * time.Minute), VIP: vip, From: "Standby", To: "Held"},
			{Time: ago(40 * time.Minute), VIP: vip, From: "Held", To: "Standby"},
			{Time: ago(20 * time.Minute), VIP: vip, From: "Standby", To: "Held"},
			{Time: ago(20 * time.Minute), Condition: report.ConditionType, From: "Standby", To: "Serving"},
		},
		Table: report.Table{
			Present: true, Owned: true, Port: 8888, Elements: []netip.Addr{vip},
			Counters: []report.Counter{{Chain: "prerouting", Rule: name, Packets: 1234567, Bytes: 60}, {Chain: "input"}},
		},
		Upstreams: []report.Upstream{
			{Address: netip.MustParseAddrPort("192.0.2.6:80"), Reachable: true, Checked: ago(10 * time.Second)},
			{Address: netip.MustParseAddrPort("[2001:db8::6]:80"), Checked: ago(10 * time.Second), Error: name},
			{Address: netip.MustParseAddrPort("192.0.2.7:80")},
		},
		Challenges: report.Challenges{
			Total: 12, Rejected: map[report.Rejection]uint64{report.NotChallenge: 30, report.ForeignHost: 10},
			Recent: []report.RecentChallenge{
				{
					Time: ago(time.Minute), DurationMS: 3.1, VIP: "192.0.2.5", Client: "203.0.113.9:1234", Method: "GET", Host: name,
					TokenPrefix: name,
					ClientKind:  report.LetsEncrypt, Outcome: report.UpstreamError, Status: 502, Upstream: "192.0.2.6:80",
					Cause: "ingress-refused", Detail: name,
				},
				{
					Time: ago(30 * time.Second), DurationMS: 2.1, VIP: "192.0.2.5", Client: "203.0.113.9:1235", Method: "GET",
					Host:        "api.example.com",
					TokenPrefix: "evaGxfAD", ClientKind: report.ClientKind(name), Outcome: report.Answered, Status: 200,
					Upstream: "192.0.2.6:80",
				},
				{Time: ago(20 * time.Second), ClientKind: report.OtherClient, Outcome: report.Outcome(name)},
			},
		},
		Traffic: report.Traffic{
			Requests: []report.RequestCount{
				{Outcome: report.Answered, ClientKind: report.CertManager, Count: 9},
				{Outcome: report.UpstreamError, ClientKind: report.LetsEncrypt, Count: 3},
				{Outcome: report.Outcome(report.NotChallenge), ClientKind: report.OtherClient, Count: 30},
				{Outcome: report.Outcome(report.ForeignHost), ClientKind: report.OtherClient, Count: 10},
				{Outcome: report.Outcome(name), ClientKind: report.ClientKind(name), Count: 1},
			},
			Durations: report.Histogram{
				Count: 12, Sum: 0.048,
				Buckets: map[int]uint64{report.BucketOf(4 * time.Millisecond): 12},
			},
			UpstreamErrors: map[string]uint64{"ingress-refused": 3, "ingress-timeout": 2, "unknown " + name: 1},
		},
		Certificates: []report.Certificate{
			{
				Address: "192.0.2.5:6443", Name: name, Issuer: name, Serial: name, NotBefore: ago(80 * 24 * time.Hour),
				NotAfter: now.Add(10 * 24 * time.Hour), Checked: now,
			},
			{Address: "192.0.2.5:6443", Error: name, Checked: now},
		},
		Config:        report.Config{Source: "file", Path: name, Error: name + "\n" + name},
		AcceptedHosts: report.AcceptedHosts{Source: report.HostsUnknown, Note: name},
		Metrics:       report.Metrics{Address: name, Error: name},
		Events:        report.Events{VIPTransitions: 3, Reloads: map[string]uint64{name: 1}, LastRuleDelay: 850},
		Trust:         report.Trust{Kind: report.TrustLastGood, Source: name, Error: name},
		EgressProxy: report.EgressProxy{
			Upstream: "auto", Pending: true, Message: name,
			Spec: report.EgressSetting{HTTPProxy: name},
		},
	}
}

// checkReport returns a report of check with name in every text.
func checkReport(name string) *result.Report {
	return &result.Report{
		Host: name, Outcome: report.CheckProblem, Summary: name, Advice: []string{name},
		Checks: []result.Result{
			{Name: name, Outcome: report.CheckOK, Text: name, NotChecked: name},
			{
				Name: "vip-holder", Outcome: report.CheckProblem,
				Findings: []findings.Finding{{ID: findings.ID(name), Level: findings.Problem, Message: name, Remediation: name}},
			},
		},
		Trace: []result.Step{{Step: name, To: name, Outcome: report.CheckProblem, Text: name, DurationMs: 1}},
	}
}

func parse(t *testing.T, text []byte) *html.Node {
	t.Helper()
	root, err := html.Parse(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// visible returns the text of a page with single spaces, without the signs of levels.
func visible(root *html.Node) string {
	var words []string
	for n := range root.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "style" && attributes(n.Parent)["aria-hidden"] == "" {
			words = append(words, strings.Fields(n.Data)...)
		}
	}
	return strings.Join(words, " ")
}
