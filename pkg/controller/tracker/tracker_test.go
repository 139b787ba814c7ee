// SPDX-License-Identifier: Apache-2.0

package tracker_test

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

var (
	start   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ingress = netip.MustParseAddrPort("192.0.2.6:80")
)

func ignoreTransition(_, _ report.Condition) {}

func servingResult() tracker.ReconcileResult {
	return tracker.ReconcileResult{
		Reason: report.Serving, Message: "holds 192.0.2.5",
		VIPs: []report.VIP{{Address: netip.MustParseAddr("192.0.2.5"), Family: "IPv4", State: report.VIPHeld}},
	}
}

func TestConditionTransitions(t *testing.T) {
	t.Parallel()
	transitions := 0
	b := tracker.New("test", start, func(before, after report.Condition) {
		if before == after {
			t.Errorf("no change from %+v", before)
		}
		transitions++
	})
	type step struct {
		name    string
		act     func(now time.Time)
		status  string
		reason  report.Reason
		changed int // the step whose time is the transition's
	}
	set := func(reason report.Reason) func(time.Time) {
		return func(now time.Time) { b.SetReconcileResult(tracker.ReconcileResult{Reason: reason, Message: "m"}, now) }
	}
	upstream := func(u report.Upstream) func(time.Time) {
		return func(now time.Time) { b.SetUpstreams([]report.Upstream{u}, now) }
	}
	down := report.Upstream{Address: ingress, Checked: start, Error: "refused"}
	for i, s := range []step{
		{"at the start", func(time.Time) {}, "False", report.Starting, 0},
		{"standby", set(report.Standby), "True", report.Standby, 1},
		{"serving keeps the time", set(report.Serving), "True", report.Serving, 1},
		{"an unchecked address is ignored", upstream(report.Upstream{Address: ingress}), "True", report.Serving, 1},
		{"no upstream answers", upstream(down), "False", report.UpstreamUnreachable, 4},
		{"ignored on standby", set(report.Standby), "True", report.Standby, 5},
		{"serving again, still unreachable", set(report.Serving), "False", report.UpstreamUnreachable, 6},
		{"another failure keeps the time", set(report.PortInUse), "False", report.PortInUse, 6},
		{"serving, unreachable", set(report.Serving), "False", report.UpstreamUnreachable, 6},
		{
			"upstream is back", upstream(report.Upstream{Address: ingress, Checked: start, Reachable: true}), "True",
			report.Serving, 9,
		},
	} {
		s.act(start.Add(time.Duration(i) * time.Minute))
		got := b.Report(report.Table{}).Condition()
		want := report.Condition{
			Type: "HTTP01ChallengeProxyReady", Status: s.status, Reason: s.reason, Message: got.Message,
			LastTransitionTime: start.Add(time.Duration(s.changed) * time.Minute),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.name, diff)
		}
		if got.Message == "" {
			t.Errorf("%s: no message", s.name)
		}
	}
	if transitions != 8 {
		t.Errorf("%d transitions, want 8", transitions)
	}
}

// TestVIPSince: the report contains the time of each VIP's last change of state.
func TestVIPSince(t *testing.T) {
	t.Parallel()
	b := tracker.New("test", start, ignoreTransition)
	for i, tt := range []struct{ result, want string }{
		{"192.0.2.5 Standby, 2001:db8::5 Standby", "192.0.2.5 0, 2001:db8::5 0"},
		{"192.0.2.5 Held, 2001:db8::5 Standby", "192.0.2.5 1, 2001:db8::5 0"},
		{"2001:db8::5 Standby, 192.0.2.5 Held", "2001:db8::5 0, 192.0.2.5 1"},
		{"192.0.2.5 Held", "192.0.2.5 1"},
		{"2001:db8::5 Standby, 192.0.2.5 Standby", "2001:db8::5 4, 192.0.2.5 4"},
		{"", ""},
	} {
		result := tracker.ReconcileResult{Reason: report.Standby, Message: "m"}
		for one := range strings.SplitSeq(tt.result, ", ") {
			if address, state, is := strings.Cut(one, " "); is {
				result.VIPs = append(result.VIPs, report.VIP{Address: netip.MustParseAddr(address), State: report.VIPState(state)})
			}
		}
		b.SetReconcileResult(result, start.Add(time.Duration(i)*time.Minute+time.Millisecond))
		var got []string
		for _, v := range b.Report(report.Table{}).VIPs {
			got = append(got, v.Address.String()+" "+strconv.Itoa(int(v.Since.Sub(start)/time.Minute)))
			if v.Since.Nanosecond() != 0 {
				t.Errorf("since %v", v.Since)
			}
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("result %d (-want +got):\n%s", i, diff)
		}
	}
}

// TestConditionInKubernetesForm: the other fields are compared with the
// type of Kubernetes in test/support/lab.
func TestConditionInKubernetesForm(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.FixedZone("", 3600))
	b := tracker.New("test", now, ignoreTransition)
	b.SetReconcileResult(tracker.ReconcileResult{Reason: report.NoVIPs, Message: strings.Repeat("é", 20000)}, now)
	r := b.Report(report.Table{})
	out, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if want := `"lastTransitionTime":"2026-01-02T02:04:05Z"`; !strings.Contains(string(out), want) {
		t.Errorf("lacks %s: %s", want, out)
	}
	if m := r.Condition().Message; len(m) > 32<<10 || !strings.HasSuffix(m, "é…") {
		t.Errorf("a message of %d bytes that ends with %q", len(m), m[len(m)-8:])
	}
	if got, want := (report.Report{}).Condition(),
		(report.Condition{Type: report.ConditionType, Status: "Unknown"}); got != want {
		t.Errorf("of an empty report: %+v", got)
	}
}

func TestChangedFires(t *testing.T) {
	t.Parallel()
	b := tracker.New("test", start, ignoreTransition)
	changed := func() bool {
		select {
		case <-b.Changed():
			return true
		default:
			return false
		}
	}
	for _, s := range []struct {
		name string
		do   func()
		want bool
	}{
		{"a result", func() { b.SetReconcileResult(servingResult(), start) }, true},
		{"the same result", func() { b.SetReconcileResult(servingResult(), start) }, false},
		{"an upstream", func() { b.SetUpstreams([]report.Upstream{{Address: ingress}}, start) }, true},
		{
			"the same, tried",
			func() { b.SetUpstreams([]report.Upstream{{Address: ingress, Checked: start, Reachable: true}}, start) }, false,
		},
		{
			"another one",
			func() { b.SetUpstreams([]report.Upstream{{Address: netip.MustParseAddrPort("192.0.2.7:80")}}, start) }, true,
		},
		{"a challenge", func() { b.RecordChallenge(report.Challenge{}) }, true},
	} {
		s.do()
		if got := changed(); got != s.want {
			t.Errorf("%s: signalled %v, want %v", s.name, got, s.want)
		}
	}
}

func TestOneUpstreamOfTwoIsEnough(t *testing.T) {
	t.Parallel()
	b := tracker.New("test", start, ignoreTransition)
	b.SetReconcileResult(servingResult(), start)
	b.SetUpstreams([]report.Upstream{{Address: ingress, Checked: start, Error: "x"}, {
		Address: ingress, Checked: start,
		Reachable: true,
	}}, start)
	if got := b.Report(report.Table{}).Condition().Reason; got != report.Serving {
		t.Errorf("reason %s", got)
	}
}

func TestRecentChallengesAreTheLastTwenty(t *testing.T) {
	t.Parallel()
	b := tracker.New("test", start, ignoreTransition)
	for n := range 47 {
		b.RecordChallenge(report.Challenge{Time: start, Host: strconv.Itoa(n), Status: 200})
		b.CountForwarded(answered(1))
		var want []string
		for i := max(0, n-19); i <= n; i++ {
			want = append(want, strconv.Itoa(i))
		}
		var got []string
		for _, c := range b.Report(report.Table{}).Challenges.Recent {
			got = append(got, c.Host)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("after %d (-want +got):\n%s", n, diff)
		}
	}
	if got := b.Report(report.Table{}).Challenges.Total; got != 47 {
		t.Errorf("total %d", got)
	}
}

// TestFloodKeepsRecentChallenges: a flood of one client does not displace the challenges of others,
// or for other hosts, for five minutes.
func TestFloodKeepsRecentChallenges(t *testing.T) {
	t.Parallel()
	const certManager = "192.0.2.10"
	b := tracker.New("test", start, ignoreTransition)
	record := func(host, client string, after time.Duration) {
		b.RecordChallenge(report.Challenge{
			Time: start.Add(after), Host: host, Client: netip.AddrPortFrom(netip.MustParseAddr(client), 1234),
		})
	}
	kept := func() (n int) {
		for _, c := range b.Report(report.Table{}).Challenges.Recent {
			if c.Host == "api.example.com" {
				n++
			}
		}
		return n
	}
	for i := range 10 {
		record("api.example.com", certManager, time.Duration(i)*time.Second)
	}
	for i := range 1000 {
		record("app.example.com", certManager, time.Minute)
		record("app"+strconv.Itoa(i)+".example.com", "203.0.113.9", time.Minute)
	}
	if n := kept(); n != 10 {
		t.Errorf("%d of 10 challenges are in the report", n)
	}
	for range 20 {
		record("app.example.com", certManager, 6*time.Minute)
	}
	if n := kept(); n != 0 {
		t.Errorf("%d old challenges are in the report", n)
	}
}

// answered returns the count of n requests that were answered with 200 in 3 ms each.
func answered(n uint64) []report.ForwardedCount {
	const took = 3 * time.Millisecond
	return []report.ForwardedCount{{
		ClientKind: report.CertManager, Outcome: report.Answered, Bucket: report.BucketOf(took), Count: n,
		TotalDuration: time.Duration(n) * took,
	}}
}

// TestForeignHost: a challenge of cert-manager or a CA for a name that is not accepted is reported
// until the accepted names change.
func TestForeignHost(t *testing.T) {
	t.Parallel()
	b := tracker.New("test", start, ignoreTransition)
	accept := func(names ...string) {
		r := tracker.ReconcileResult{Reason: report.Serving, AcceptedHosts: report.AcceptedHosts{Names: names}}
		b.SetReconcileResult(r, start)
	}
	reject := func(reason report.Rejection, kind report.ClientKind, after time.Duration) {
		b.CountRejected([]report.RejectionCount{{Rejection: reason, ClientKind: kind, Count: 1}}, start.Add(after))
	}
	expect := func(when string, want time.Time) {
		t.Helper()
		if got := b.Report(report.Table{}).Challenges.LastForeignHost; !got.Equal(want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	accept("a.example")
	reject(report.ForeignHost, report.OtherClient, time.Second)
	reject(report.ForeignHost, report.CheckClient, time.Second)
	reject(report.NotChallenge, report.CertManager, time.Second)
	expect("of others", time.Time{})
	reject(report.ForeignHost, report.CertManager, time.Minute)
	reject(report.ForeignHost, report.LetsEncrypt, time.Hour+time.Millisecond)
	accept("a.example")
	expect("of a CA", start.Add(time.Hour))
	accept("a.example", "b.example")
	expect("with another name", time.Time{})
}

func TestTraffic(t *testing.T) {
	t.Parallel()
	b := tracker.New("test", start, ignoreTransition)
	b.CountForwarded(answered(3))
	b.CountForwarded(append(answered(2), report.ForwardedCount{
		ClientKind: report.LetsEncrypt, Outcome: report.UpstreamError, Cause: "ingress-refused",
		Bucket: report.BucketOf(time.Second), Count: 1, TotalDuration: time.Second,
	}))
	rejected := report.RejectionCount{Rejection: report.NotChallenge, ClientKind: report.OtherClient, Count: 4}
	b.CountRejected([]report.RejectionCount{rejected}, start)
	first := b.Report(report.Table{})
	want := report.Traffic{
		Requests: []report.RequestCount{
			{Outcome: "not-challenge", ClientKind: report.OtherClient, Count: 4},
			{Outcome: report.Answered, ClientKind: report.CertManager, Count: 5},
			{Outcome: report.UpstreamError, ClientKind: report.LetsEncrypt, Count: 1},
		},
		Durations: report.Histogram{
			Count: 6, Sum: 1.015,
			Buckets: map[int]uint64{report.BucketOf(3 * time.Millisecond): 5, 0: 1},
		},
		UpstreamErrors: map[string]uint64{"ingress-refused": 1},
	}
	if diff := cmp.Diff(want, first.Traffic); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b.CountForwarded(answered(1))
	if diff := cmp.Diff(want, first.Traffic); diff != "" {
		t.Errorf("a report is not a copy:\n%s", diff)
	}
	if first.Challenges.Total != 6 {
		t.Errorf("total %d", first.Challenges.Total)
	}
}

// TestBucket: the upper bound of a bucket is inclusive, as in native histograms of
// Prometheus.
func TestBucket(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]int{
		-1: report.FirstBucket, 0: report.FirstBucket, time.Nanosecond: report.FirstBucket, time.Hour: report.LastBucket,
		time.Second: 0, time.Second + 1: 1, time.Second - 1: 0, 2 * time.Second: 8, 250 * time.Millisecond: -16,
		time.Second / 2: -8, time.Second/2 + 1: -7, 64 * time.Second: report.LastBucket,
	} {
		if got := report.BucketOf(d); got != want {
			t.Errorf("Bucket(%v) = %d, want %d", d, got, want)
		}
	}
}

func TestStatusLine(t *testing.T) {
	t.Parallel()
	now := start.Add(time.Hour)
	for name, tt := range map[string]struct {
		do   func(*tracker.Tracker)
		want string
	}{
		"starting": {func(*tracker.Tracker) {}, "Starting: the first observation of this host is not complete yet"},
		"serving": {func(b *tracker.Tracker) {
			b.SetReconcileResult(servingResult(), start)
			b.SetUpstreams([]report.Upstream{{Address: ingress, Checked: start, Reachable: true}}, start)
			b.CountForwarded(answered(12))
			b.RecordChallenge(report.Challenge{Time: now.Add(-3 * time.Minute), Status: 200})
		}, "Serving: holds 192.0.2.5, upstream 192.0.2.6:80, 12 challenges, last 200"},
		"client that disconnected": {func(b *tracker.Tracker) {
			b.SetReconcileResult(tracker.ReconcileResult{Reason: report.Standby, Message: "not on this host: 192.0.2.5"}, start)
			b.CountForwarded([]report.ForwardedCount{{ClientKind: report.OtherClient, Outcome: report.AnswerUnread, Count: 1}})
			b.RecordChallenge(report.Challenge{Time: now.Add(-30 * time.Second)})
		}, "Standby: not on this host: 192.0.2.5, 1 challenge, last without a response"},
		"message over lines": {func(b *tracker.Tracker) {
			b.SetReconcileResult(tracker.ReconcileResult{Reason: report.InvalidConfig, Message: "a\nREADY=1\x1b[31m"}, start)
		}, "InvalidConfig: a READY=1 [31m"},
		"very long message": {func(b *tracker.Tracker) {
			b.SetReconcileResult(tracker.ReconcileResult{Reason: report.NoVIPs, Message: strings.Repeat("é", 5000)}, start)
		}, "NoVIPs: " + strings.Repeat("é", 494) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := tracker.New("test", start, ignoreTransition)
			tt.do(b)
			if got := verdict.StatusLine(b.Report(report.Table{}), now); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestStateSince: the time of a state begins with its reason, and the transition time with the status.
func TestStateSince(t *testing.T) {
	t.Parallel()
	b := tracker.New("test", start, ignoreTransition)
	for i, reason := range []report.Reason{report.Standby, report.Serving, report.Serving, report.PortInUse} {
		b.SetReconcileResult(tracker.ReconcileResult{Reason: reason, Message: strconv.Itoa(i)},
			start.Add(time.Duration(i+1)*time.Minute))
		r, minutes := b.Report(report.Table{}), []int{1, 2, 2, 4}
		if want := start.Add(time.Duration(minutes[i]) * time.Minute); !r.StateSince.Equal(want) {
			t.Errorf("%s since %v, want %v", reason, r.StateSince, want)
		}
		if c := r.Condition(); reason.Ready() && !c.LastTransitionTime.Equal(start.Add(time.Minute)) {
			t.Errorf("the transition time is %v", c.LastTransitionTime)
		}
	}
}

// TestReconcileResultMessages: a result may have its own message for an unreachable
// ingress, and a suffix for every message.
func TestReconcileResultMessages(t *testing.T) {
	t.Parallel()
	b := tracker.New("test", start, ignoreTransition)
	b.SetReconcileResult(tracker.ReconcileResult{
		Reason: report.Serving, Message: "m",
		UnreachableMessage: "the router does not answer", MessageSuffix: " (suffix)",
	}, start)
	expect := func(want string) {
		t.Helper()
		if c := b.Report(report.Table{}).Condition(); string(c.Reason)+": "+c.Message != want {
			t.Errorf("%s: %s, want %s", c.Reason, c.Message, want)
		}
	}
	expect("Serving: m (suffix)")
	b.SetUpstreams([]report.Upstream{{Checked: start, Error: "refused"}, {Checked: start, Error: "refused"}}, start)
	expect("UpstreamUnreachable: the router does not answer (suffix)")
}

// TestServingRequiresAnswerOnEachVIP: the reason becomes Serving when each held VIP
// answered the service's own request. Waiting for an answer is no transition.
func TestServingRequiresAnswerOnEachVIP(t *testing.T) {
	t.Parallel()
	transitions := 0
	b := tracker.New("test", start, func(_, _ report.Condition) { transitions++ })
	vip := servingResult().VIPs[0].Address
	other := netip.MustParseAddr("2001:db8::5")
	result := func(reason report.Reason, vips ...netip.Addr) {
		l := tracker.ReconcileResult{Reason: reason, Message: "holds " + strconv.Itoa(len(vips))}
		for _, v := range vips {
			l.VIPs = append(l.VIPs, report.VIP{Address: v, State: report.VIPHeld})
		}
		b.SetReconcileResult(l, start)
	}
	want := func(step string, reason report.Reason, message string) {
		t.Helper()
		if c := b.Report(report.Table{}).Condition(); c.Reason != reason || c.Message != message {
			t.Errorf("%s: %s: %s; want %s: %s", step, c.Reason, c.Message, reason, message)
		}
	}
	b.SetVIPProbe(tracker.VIPProbe{}, start)
	result(report.Standby)
	want("without a VIP", report.Standby, "holds 0")
	result(report.Serving, vip)
	want("before the first answer", report.Standby,
		"holds 1; waiting for the response to the service's own request to 192.0.2.5")
	b.SetVIPProbe(tracker.VIPProbe{Answered: []netip.Addr{vip}}, start)
	want("after it", report.Serving, "holds 1")
	result(report.Serving, vip, other)
	want("before the answer of a second VIP", report.Serving,
		"holds 2; waiting for the response to the service's own request to 2001:db8::5")
	b.SetVIPProbe(tracker.VIPProbe{Answered: []netip.Addr{vip}, Failure: "silence"}, start)
	want("without that answer", report.ProxyUnavailable, "silence")
	b.SetProxyFailure("gone", start)
	want("without a proxy process", report.ProxyUnavailable, "gone")
	b.SetProxyFailure("", start)
	b.SetVIPProbe(tracker.VIPProbe{Answered: []netip.Addr{vip, other}, Note: "but"}, start)
	want("with a note", report.Serving, "holds 2; but: run http01-proxyd check")
	result(report.PortInUse, vip)
	want("with another reason", report.PortInUse, "holds 1")
	b.SetVIPProbe(tracker.VIPProbe{}, start)
	for _, over := range []report.Reason{report.InvalidConfig, report.PortInUse, report.Disabled, report.NoVIPs} {
		result(over, vip)
		result(report.Serving, vip)
		want("after "+string(over), report.Starting,
			"holds 1; waiting for the response to the service's own request to 192.0.2.5")
	}
	if transitions != 11 {
		t.Errorf("%d transitions", transitions)
	}
}

// TestHistory: each change of a VIP's state and of a condition's reason is recorded once,
// with its time. Waiting for the answer of a VIP is no change.
func TestHistory(t *testing.T) {
	t.Parallel()
	now := start
	b := tracker.New("test", now, ignoreTransition)
	later := func() time.Time { now = now.Add(time.Minute + 1234*time.Microsecond); return now }
	vip := servingResult().VIPs[0].Address
	b.SetVIPProbe(tracker.VIPProbe{}, later())
	b.SetReconcileResult(servingResult(), later())
	b.SetReconcileResult(servingResult(), later())
	b.SetVIPProbe(tracker.VIPProbe{Answered: []netip.Addr{vip}}, later())
	b.SetTrust(report.Trust{Kind: report.TrustUnused}, later())
	b.SetTrust(report.Trust{Kind: report.TrustUnused}, later())
	b.SetReconcileResult(tracker.ReconcileResult{Reason: report.NotRequired, Message: "m"}, later())
	text, err := json.Marshal(b.Report(report.Table{}).History)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"time":"2026-01-02T03:04:05Z","condition":"HTTP01ChallengeProxyReady","to":"Starting"},` +
		`{"time":"2026-01-02T03:06:05.002Z","vip":"192.0.2.5","to":"Held"},` +
		`{"time":"2026-01-02T03:08:05.004Z","condition":"HTTP01ChallengeProxyReady","from":"Starting","to":"Serving"},` +
		`{"time":"2026-01-02T03:09:05.006Z","condition":"UpstreamTrustReady","to":"NotRequired"},` +
		`{"time":"2026-01-02T03:11:05.008Z","vip":"192.0.2.5","from":"Held"},` +
		`{"time":"2026-01-02T03:11:05.008Z","condition":"HTTP01ChallengeProxyReady","from":"Serving","to":"NotRequired"}]`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestHistoryIsBounded: the oldest changes make room, and a report is a copy.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	b := tracker.New("test", start, ignoreTransition)
	first := b.Report(report.Table{}).History
	reasons := []report.Reason{report.Standby, report.Serving}
	for i := range 3 * report.MaxHistory {
		b.SetReconcileResult(tracker.ReconcileResult{Reason: reasons[i%2]}, start.Add(time.Duration(i)*time.Second))
	}
	got := b.Report(report.Table{}).History
	if len(first) != 1 || first[0].To != string(report.Starting) {
		t.Errorf("the first report has changed: %+v", first)
	}
	if len(got) != report.MaxHistory {
		t.Fatalf("%d changes", len(got))
	}
	for i, c := range got {
		if want := start.Add(time.Duration(2*report.MaxHistory+i) * time.Second); !c.Time.Equal(want) {
			t.Errorf("change %d at %v, want %v", i, c.Time, want)
		}
	}
}

// TestTestRequestSources: a source that is active keeps its own count, and the total includes
// all.
func TestTestRequestSources(t *testing.T) {
	t.Parallel()
	tr := tracker.New("test", time.Now(), func(_, _ report.Condition) {})
	now, source := time.Now(), netip.MustParseAddr("192.0.2.1")
	count := func(source netip.Addr) report.TestRequests {
		tr.CountTestRequests([]report.TestSource{{Address: source, Count: 2}}, now)
		return tr.Report(report.Table{}).TestRequests
	}
	for range report.MaxTestSources {
		source = source.Next()
		count(source)
	}
	other := netip.MustParseAddr("192.0.2.200")
	if r := count(other); len(r.Sources) != report.MaxTestSources || r.Others != 2 || r.Total != 34 {
		t.Errorf("%+v", r)
	}
	now = now.Add(time.Hour)
	count(source)
	r := count(other)
	sorted := slices.IsSortedFunc(r.Sources, func(a, b report.TestSource) int { return a.Address.Compare(b.Address) })
	if len(r.Sources) != report.MaxTestSources || r.Others != 4 || r.Total != 38 || !sorted ||
		r.Sources[len(r.Sources)-1].Address != other {
		t.Errorf("%+v", r)
	}
}

// TestVIPTestCounts: each test is counted once, though results are set again when the VIPs change.
func TestVIPTestCounts(t *testing.T) {
	t.Parallel()
	tr := tracker.New("test", time.Now(), func(_, _ report.Condition) {})
	first := report.VIPTest{VIP: netip.MustParseAddr("192.0.2.5"), Result: report.VIPTimedOut, Checked: time.Unix(1, 0)}
	second, other := first, first
	second.Checked, other.VIP = time.Unix(2, 0), netip.MustParseAddr("2001:db8::5")
	other.Result = report.VIPAnswered
	for _, all := range [][]report.VIPTest{{first}, {first, other}, {second, other}, {other}} {
		tr.SetVIPTests(all)
	}
	want := map[report.VIPTestResult]uint64{report.VIPTimedOut: 2, report.VIPAnswered: 1}
	if got := tr.Report(report.Table{}).Events.VIPTests; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestUnreachableMessage: the failures of the addresses are sentences, one after the other.
func TestUnreachableMessage(t *testing.T) {
	t.Parallel()
	for want, errs := range map[string][2]string{
		"no ingress address accepts connections: a fails. Check a. b fails. Check b.": {"a fails. Check a.", "b fails. Check b."},
		"no ingress address accepts connections: refused; timeout":                    {"refused", "timeout"},
	} {
		b := tracker.New("test", start, ignoreTransition)
		b.SetReconcileResult(servingResult(), start)
		b.SetUpstreams([]report.Upstream{
			{Address: ingress, Checked: start, Error: errs[0]},
			{Address: netip.MustParseAddrPort("[2001:db8::6]:80"), Checked: start, Error: errs[1]},
		}, start)
		if got := b.Report(report.Table{}).Condition().Message; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
