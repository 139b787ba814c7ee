// SPDX-License-Identifier: Apache-2.0

package terminal_test

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/condition"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

var update = flag.Bool("update", false, "write the files in testdata (default false)")

var goldenNow = time.Date(2026, 3, 4, 12, 30, 0, 0, time.UTC)

func before(d time.Duration) time.Time { return goldenNow.Add(-d) }

const day = 24 * time.Hour

// serving is the report of a host that holds both VIPs and works.
func serving() report.Report {
	vip4, vip6 := netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("2001:db8::5")
	router := netip.MustParseAddrPort("192.0.2.6:80")
	certificate := func(address, name, issuer string) report.Certificate {
		return report.Certificate{
			Address: address, Name: name, Issuer: issuer, Serial: name + "1", NotBefore: before(30 * day),
			NotAfter: goldenNow.Add(60 * day), Checked: before(20 * time.Minute),
		}
	}
	challenge := func(age time.Duration, kind report.ClientKind, client, token string) report.RecentChallenge {
		return report.RecentChallenge{
			Time: before(age), DurationMS: 3.1, VIP: vip4.String(), Client: client, Method: "GET", Host: "api.example.com",
			TokenPrefix: token, ClientKind: kind, Outcome: report.Answered, Status: 200, Upstream: router.String(),
		}
	}
	return report.Report{
		Time: goldenNow, Version: "v0.3.1-0.20260301101112-0c0567a6abcd", StateSince: before(3 * time.Hour),
		Conditions: []report.Condition{
			{
				Type: report.ConditionType, Status: "True", Reason: report.Serving,
				Message: "holds 192.0.2.5, 2001:db8::5", LastTransitionTime: before(9 * day),
			},
			{Type: report.TrustConditionType, Status: "True", Reason: report.NotRequired, LastTransitionTime: before(9 * day)},
		},
		VIPs: []report.VIP{
			{Address: vip4, Family: "IPv4", State: report.VIPHeld, Since: before(3 * time.Hour)},
			{Address: vip6, Family: "IPv6", State: report.VIPHeld, Since: before(3 * time.Hour)},
		},
		TestRequests: report.TestRequests{Sources: []report.TestSource{
			{Address: netip.MustParseAddr("192.0.2.11"), Last: before(3 * time.Second)},
			{Address: netip.MustParseAddr("192.0.2.12"), Last: before(8 * time.Second)},
			{Address: netip.MustParseAddr("2001:db8::11"), Last: before(3 * time.Second)},
			{Address: netip.MustParseAddr("2001:db8::12"), Last: before(8 * time.Second)},
		}},
		Table: report.Table{
			Present: true, Owned: true, Port: 8888, Elements: []netip.Addr{vip4, vip6},
			Counters: []report.Counter{{Chain: "prerouting", Rule: "ip daddr @api4 tcp dport 80 fib daddr type local counter dnat to :8888", Packets: 12}},
		},
		Upstreams: []report.Upstream{
			{Address: router, Reachable: true, Checked: before(10 * time.Second)},
			{Address: netip.MustParseAddrPort("[2001:db8::6]:80"), Reachable: true, Checked: before(10 * time.Second)},
		},
		Challenges: report.Challenges{
			Total: 2,
			Recent: []report.RecentChallenge{
				challenge(50*time.Second, report.CertManager, "192.0.2.11:40112", "evaGxfAD"),
				challenge(20*time.Second, report.LetsEncrypt, "203.0.113.9:51234", "evaGxfAD"),
			},
		},
		Config: report.Config{Source: "file", Path: "/etc/http01-proxyd/config.yaml"},
		AcceptedHosts: report.AcceptedHosts{
			Names: []string{"api.example.com"}, Source: report.HostsAPIName, Path: "/etc/kubernetes/apiserver-url.env",
		},
		Traffic: report.Traffic{Requests: []report.RequestCount{
			{Outcome: report.Answered, ClientKind: report.CertManager, Count: 1},
			{Outcome: report.Answered, ClientKind: report.LetsEncrypt, Count: 1},
		}},
		Certificates: []report.Certificate{
			certificate("192.0.2.5:6443", "api.example.com", "R11"),
			certificate("192.0.2.5:6443", "", "kube-apiserver-lb-signer"),
			certificate("[2001:db8::5]:6443", "api.example.com", "R11"),
			certificate("[2001:db8::5]:6443", "", "kube-apiserver-lb-signer"),
		},
		SelfTests: []report.SelfTest{{VIP: vip4, OK: true, Since: before(3 * time.Hour), Checked: before(4 * time.Minute)}},
		Metrics:   report.Metrics{Address: "192.0.2.10:9645", Served: true},
		Trust:     report.Trust{Kind: report.TrustUnused},
	}
}

// standby is the report of a host whose last test of both VIPs has this result.
func standby(result report.VIPTestResult, failures int) report.Report {
	r := serving()
	r.Conditions[0].Reason, r.Conditions[0].Message = report.Standby, "not on this host: 192.0.2.5, 2001:db8::5"
	r.StateSince = before(9 * day)
	cause := ""
	if failures > 0 {
		cause = string(findings.VIPUnreachableFromHere)
	}
	for i := range r.VIPs {
		r.VIPs[i].State, r.VIPs[i].Since = report.VIPStandby, before(9*day)
		r.VIPTests = append(r.VIPTests, report.VIPTest{
			VIP: r.VIPs[i].Address, Result: result, Since: before(2 * time.Minute), Checked: before(3 * time.Second),
			Failures: failures, Cause: cause,
		})
	}
	r.Upstreams = []report.Upstream{{Address: r.Upstreams[0].Address}, {Address: r.Upstreams[1].Address}}
	r.Certificates, r.SelfTests, r.TestRequests = nil, nil, report.TestRequests{}
	r.Challenges, r.Traffic, r.Table.Elements = report.Challenges{}, report.Traffic{}, nil
	return r
}

// scenario is what a holder of the VIPs and another host report.
type scenario struct {
	holder, other report.Report
	shown         report.Report // by the status of a host
}

func scenarios() map[string]scenario {
	healthy := serving()
	withoutRoute := serving()
	failed := &withoutRoute.Challenges.Recent[1]
	failed.Status, failed.Outcome, failed.Cause = 503, report.NoRoute, string(findings.RouteMissing)
	failed.Detail = findings.New(findings.RouteMissing,
		findings.Values{"upstream": failed.Upstream, "host": "api.example.com", "name": "api.example.com"}).String()
	expired := serving()
	for _, i := range []int{0, 2} {
		c := &expired.Certificates[i]
		c.NotBefore, c.NotAfter = before(90*day), before(5*time.Minute)
		c.FailedRenewals, c.FirstFailure, c.LastFailure = 2, before(2*day), before(day)
		*c = c.WithAttemptsLeft(goldenNow)
	}
	stopped := report.ServiceUnreachable(before(5*time.Second), fmt.Errorf(
		"%w: dial unix /run/http01-proxyd/status.sock: connect: no such file or directory", report.ErrNotRunning))
	answered := standby(report.VIPAnswered, 0)
	blocked, refused := standby(report.VIPTimedOut, 8), standby(report.VIPRefused, 3)
	return map[string]scenario{
		"healthy":  {healthy, answered, healthy},
		"503":      {withoutRoute, answered, withoutRoute},
		"firewall": {healthy, blocked, blocked},
		"expired":  {expired, answered, expired},
		"stopped":  {stopped, refused, stopped},
	}
}

func (s scenario) hosts() map[string]report.Report {
	return map[string]report.Report{"master0": s.holder, "master1": s.other, "master2": s.other}
}

func (s scenario) cluster() report.ClusterStatus {
	var all []condition.HostReport
	for name, r := range s.hosts() {
		all = append(all, condition.HostReport{Name: name, Condition: r.Condition(), Report: r, Observed: goldenNow})
	}
	return condition.ClusterStatus(all, goldenNow)
}

// TestGolden compares the status of a host and of a cluster with the files in testdata, and holds what
// all of them have in common: no line is longer than the terminal, unless it is a command; no word is
// broken; a status fits 24 lines; and no state is marked as good above a problem.
func TestGolden(t *testing.T) {
	t.Parallel()
	for name, s := range scenarios() {
		for kind, text := range map[string]terminal.Text{
			"status": terminal.Report(s.shown, goldenNow), "cluster-status": terminal.ClusterStatus(s.cluster(), s.hosts()),
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				whole := render(t, text, terminal.View{})
				for _, width := range []int{40, 80, 200} {
					got := render(t, text, terminal.View{Width: width})
					compareGolden(t, fmt.Sprintf("%s/%s.%d.txt", kind, name, width), got)
					expectWholeWords(t, whole, got, width)
					if n := strings.Count(got, "\n"); width == 80 && n > 24 {
						t.Errorf("%d lines", n)
					}
				}
				compareGolden(t, fmt.Sprintf("%s/%s.wide.txt", kind, name), render(t, text, terminal.View{Wide: true}))
				if bad := strings.Contains(whole, "✗"); bad != strings.HasPrefix(whole, "State:          ✗") ||
					bad == (name == "healthy") {
					t.Errorf("the mark of the state does not fit:\n%s", whole)
				}
			})
		}
	}
}

// TestGoldenWatch compares what a watch shows on a terminal of 80 columns and 24 lines.
func TestGoldenWatch(t *testing.T) {
	t.Parallel()
	for name, s := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for len(s.shown.Challenges.Recent) > 0 && len(s.shown.Challenges.Recent) < 20 {
				s.shown.Challenges.Recent = append(s.shown.Challenges.Recent[:1], s.shown.Challenges.Recent...)
			}
			view := terminal.View{Width: 79, Height: 24}
			host := terminal.Watch("12:30:00  http01-proxyd on master0, every 2s; Ctrl-C ends",
				terminal.Report(s.shown, goldenNow), section.Challenges(s.shown.Challenges, goldenNow))
			compareScreen(t, "watch/"+name+".80x24.txt", render(t, host, view))
			cluster := terminal.Watch("12:30:00  http01-proxyd on 3 control-plane nodes, every 10s; Ctrl-C ends",
				terminal.ClusterStatus(s.cluster(), s.hosts()), section.ClusterChallenges(s.hosts(), goldenNow))
			compareScreen(t, "cluster-watch/"+name+".80x24.txt", render(t, cluster, view))
		})
	}
}

// TestWatchFits: a watch fits every window, and shows the newest challenge in all but the smallest ones.
func TestWatchFits(t *testing.T) {
	t.Parallel()
	s := scenarios()["503"]
	for width := 30; width < 120; width += 10 {
		for height := 1; height < 50; height++ {
			got := render(t, terminal.Watch("the title", terminal.Report(s.shown, goldenNow),
				section.Challenges(s.shown.Challenges, goldenNow)), terminal.View{Width: width, Height: height})
			if n := strings.Count(got, "\n"); n > height {
				t.Fatalf("%d lines on %d:\n%s", n, height, got)
			}
			_, below, _ := strings.Cut(got, "AGE")
			if height >= 8 && !strings.Contains(below, "20s  503") {
				t.Fatalf("%d x %d has no challenge:\n%s", width, height, got)
			}
			if height >= 4 && !strings.HasPrefix(got, "the title\n") {
				t.Fatalf("no title:\n%s", got)
			}
		}
	}
}

// TestTakeover: the times of a node that has just taken over a VIP begin then, although it was
// ready before.
func TestTakeover(t *testing.T) {
	t.Parallel()
	s := scenarios()["healthy"]
	s.holder.StateSince = before(6 * time.Second)
	for i := range s.holder.VIPs {
		s.holder.VIPs[i].Since = before(6 * time.Second)
	}
	got := render(t, terminal.ClusterStatus(s.cluster(), s.hosts()), terminal.View{})
	for _, want := range []string{
		"State:          ✓ Serving for 6s\n", "\n192.0.2.5    master0  6s   reachable from",
		"\nmaster0  ✓ Serving  6s   192.0.2.5",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q:\n%s", want, got)
		}
	}
	if got := render(t, terminal.Report(s.holder, goldenNow), terminal.View{}); !strings.HasPrefix(got,
		"State:          ✓ Serving for 6s\n") || !strings.Contains(got, "192.0.2.5 held here for 6s, reachable") {
		t.Error(got)
	}
}

func compareScreen(t *testing.T, file, got string) {
	t.Helper()
	compareGolden(t, file, got)
	if n := strings.Count(got, "\n"); n > 24 {
		t.Errorf("%s: %d lines", file, n)
	}
}

func render(t *testing.T, text terminal.Text, view terminal.View) string {
	t.Helper()
	var out strings.Builder
	if err := text.Write(&out, view); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", filepath.FromSlash(file))
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// expectWholeWords expects that each word of a text is one of the whole text, and that no line is longer
// than the width, unless it is a command.
func expectWholeWords(t *testing.T, whole, got string, width int) {
	t.Helper()
	known := map[string]bool{}
	word := func(w string) string { return strings.TrimSuffix(strings.ToLower(w), ":") }
	for w := range strings.FieldsSeq(whole) {
		known[word(w)] = true
	}
	for line := range strings.Lines(got) {
		line = strings.TrimSuffix(line, "\n")
		command := strings.HasPrefix(line, "  ") && strings.Contains(whole, "\n"+line+"\n")
		if n := utf8.RuneCountInString(line); n > width && !command {
			t.Errorf("a line of %d characters: %s", n, line)
		}
		for w := range strings.FieldsSeq(line) {
			if !known[word(w)] {
				t.Errorf("%q is no word of the whole text", w)
			}
		}
	}
}

// TestSample: docs/reference/status.md shows what the program prints.
func TestSample(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if sample := read("testdata/status/503.80.txt"); !strings.Contains(read("../../../docs/reference/status.md"), sample) {
		t.Errorf("write this into docs/reference/status.md:\n%s", sample)
	}
}
