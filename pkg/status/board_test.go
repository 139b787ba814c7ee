// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/status"
)

var (
	start   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ingress = netip.MustParseAddrPort("192.0.2.6:80")
)

func ignore(_, _ status.Condition) {}

func serving() status.Look {
	return status.Look{
		Reason: status.Serving, Message: "holds 192.0.2.5",
		VIPs: []status.VIP{{Address: netip.MustParseAddr("192.0.2.5"), Family: "IPv4", State: status.VIPHeld}},
	}
}

func TestConditionTransitions(t *testing.T) {
	t.Parallel()
	moves := 0
	b := status.NewBoard("test", start, func(before, after status.Condition) {
		if before == after {
			t.Errorf("no change from %+v", before)
		}
		moves++
	})
	type step struct {
		name   string
		act    func(now time.Time)
		status string
		reason status.Reason
		moved  int // the step whose time is the transition's
	}
	set := func(reason status.Reason) func(time.Time) {
		return func(now time.Time) { b.SetLook(status.Look{Reason: reason, Message: "m"}, now) }
	}
	upstream := func(u status.Upstream) func(time.Time) {
		return func(now time.Time) { b.SetUpstreams([]status.Upstream{u}, now) }
	}
	down := status.Upstream{Address: ingress, Checked: start, Error: "refused"}
	for i, s := range []step{
		{"at the start", func(time.Time) {}, "False", status.Starting, 0},
		{"standby", set(status.Standby), "True", status.Standby, 1},
		{"serving keeps the time", set(status.Serving), "True", status.Serving, 1},
		{"an address not tried yet says nothing", upstream(status.Upstream{Address: ingress}), "True", status.Serving, 1},
		{"no upstream answers", upstream(down), "False", status.UpstreamUnreachable, 4},
		{"on standby that does not count", set(status.Standby), "True", status.Standby, 5},
		{"serving again, still unreachable", set(status.Serving), "False", status.UpstreamUnreachable, 6},
		{"another failure keeps the time", set(status.PortInUse), "False", status.PortInUse, 6},
		{"serving, unreachable", set(status.Serving), "False", status.UpstreamUnreachable, 6},
		{"upstream is back", upstream(status.Upstream{Address: ingress, Checked: start, Reachable: true}), "True", status.Serving, 9},
	} {
		s.act(start.Add(time.Duration(i) * time.Minute))
		got := b.Report(status.Table{}).Condition()
		want := status.Condition{
			Type: "HTTP01ChallengeProxyReady", Status: s.status, Reason: s.reason, Message: got.Message,
			LastTransitionTime: start.Add(time.Duration(s.moved) * time.Minute),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.name, diff)
		}
		if got.Message == "" {
			t.Errorf("%s: no message", s.name)
		}
	}
	if moves != 8 {
		t.Errorf("told of %d changes, want 8", moves)
	}
}

// TestVIPsAreDated: each VIP says since when it is what it is.
func TestVIPsAreDated(t *testing.T) {
	t.Parallel()
	b := status.NewBoard("test", start, ignore)
	for i, tt := range []struct{ look, want string }{
		{"192.0.2.5 Standby, 2001:db8::5 Standby", "192.0.2.5 0, 2001:db8::5 0"},
		{"192.0.2.5 Held, 2001:db8::5 Standby", "192.0.2.5 1, 2001:db8::5 0"},
		{"2001:db8::5 Standby, 192.0.2.5 Held", "2001:db8::5 0, 192.0.2.5 1"},
		{"192.0.2.5 Held", "192.0.2.5 1"},
		{"2001:db8::5 Standby, 192.0.2.5 Standby", "2001:db8::5 4, 192.0.2.5 4"},
		{"", ""},
	} {
		look := status.Look{Reason: status.Standby, Message: "m"}
		for one := range strings.SplitSeq(tt.look, ", ") {
			if address, state, is := strings.Cut(one, " "); is {
				look.VIPs = append(look.VIPs, status.VIP{Address: netip.MustParseAddr(address), State: status.VIPState(state)})
			}
		}
		b.SetLook(look, start.Add(time.Duration(i)*time.Minute+time.Millisecond))
		var got []string
		for _, v := range b.Report(status.Table{}).VIPs {
			got = append(got, v.Address.String()+" "+strconv.Itoa(int(v.Since.Sub(start)/time.Minute)))
			if v.Since.Nanosecond() != 0 {
				t.Errorf("since %v", v.Since)
			}
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("look %d (-want +got):\n%s", i, diff)
		}
	}
}

// TestConditionInKubernetesForm: the rest of the shape is compared with the real
// type in test/lab.
func TestConditionInKubernetesForm(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.FixedZone("", 3600))
	b := status.NewBoard("test", now, ignore)
	b.SetLook(status.Look{Reason: status.NoVIPs, Message: strings.Repeat("é", 20000)}, now)
	r := b.Report(status.Table{})
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
	if got, want := (status.Report{}).Condition(), (status.Condition{Type: status.ConditionType, Status: "Unknown"}); got != want {
		t.Errorf("of an empty report: %+v", got)
	}
}

func TestAChallengeProvesItsUpstream(t *testing.T) {
	t.Parallel()
	other := netip.MustParseAddrPort("192.0.2.7:80")
	down := []status.Upstream{{Address: ingress, Checked: start, Error: "refused"}, {Address: other, Checked: start, Error: "refused"}}
	for name, tt := range map[string]struct {
		challenge status.Challenge
		want      status.Reason
	}{
		"answered":          {status.Challenge{Upstream: ingress, Status: 200}, status.Serving},
		"failed":            {status.Challenge{Upstream: ingress, Status: 502, Cause: "refused"}, status.UpstreamUnreachable},
		"client went away":  {status.Challenge{Upstream: ingress}, status.UpstreamUnreachable},
		"address of before": {status.Challenge{Upstream: netip.MustParseAddrPort("192.0.2.8:80"), Status: 200}, status.UpstreamUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := status.NewBoard("test", start, ignore)
			b.SetLook(serving(), start)
			b.SetUpstreams(down, start)
			b.Challenge(tt.challenge)
			r := b.Report(status.Table{})
			if r.Condition().Reason != tt.want || r.Upstreams[0].Reachable != (tt.want == status.Serving) || r.Upstreams[1].Reachable {
				t.Errorf("reason %s, upstreams %+v", r.Condition().Reason, r.Upstreams)
			}
		})
	}
}

func TestChangesAreTold(t *testing.T) {
	t.Parallel()
	b := status.NewBoard("test", start, ignore)
	told := func() bool {
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
		{"a look", func() { b.SetLook(serving(), start) }, true},
		{"the same look", func() { b.SetLook(serving(), start) }, false},
		{"an upstream", func() { b.SetUpstreams([]status.Upstream{{Address: ingress}}, start) }, true},
		{"the same, tried", func() { b.SetUpstreams([]status.Upstream{{Address: ingress, Checked: start, Reachable: true}}, start) }, false},
		{"another one", func() { b.SetUpstreams([]status.Upstream{{Address: netip.MustParseAddrPort("192.0.2.7:80")}}, start) }, true},
		{"a challenge", func() { b.Challenge(status.Challenge{}) }, true},
	} {
		s.do()
		if got := told(); got != s.want {
			t.Errorf("%s: told %v, want %v", s.name, got, s.want)
		}
	}
}

func TestOneUpstreamOfTwoIsEnough(t *testing.T) {
	t.Parallel()
	b := status.NewBoard("test", start, ignore)
	b.SetLook(serving(), start)
	b.SetUpstreams([]status.Upstream{{Address: ingress, Checked: start, Error: "x"}, {Address: ingress, Checked: start, Reachable: true}}, start)
	if got := b.Report(status.Table{}).Condition().Reason; got != status.Serving {
		t.Errorf("reason %s", got)
	}
}

func TestRecentChallengesAreTheLastTwenty(t *testing.T) {
	t.Parallel()
	b := status.NewBoard("test", start, ignore)
	for n := range 47 {
		b.Challenge(status.Challenge{Time: start, Host: strconv.Itoa(n), Status: 200})
		b.Count(answered(1))
		var want []string
		for i := max(0, n-19); i <= n; i++ {
			want = append(want, strconv.Itoa(i))
		}
		var got []string
		for _, c := range b.Report(status.Table{}).Challenges.Recent {
			got = append(got, c.Host)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("after %d (-want +got):\n%s", n, diff)
		}
	}
	if got := b.Report(status.Table{}).Challenges.Total; got != 47 {
		t.Errorf("total %d", got)
	}
}

// answered is n requests that were answered with 200 in 3 ms each.
func answered(n uint64) []status.Sum {
	const took = 3 * time.Millisecond
	return []status.Sum{{
		Asker: status.CertManager, Outcome: status.Answered, Bucket: status.Bucket(took), Count: n, Took: time.Duration(n) * took,
	}}
}

func TestTraffic(t *testing.T) {
	t.Parallel()
	b := status.NewBoard("test", start, ignore)
	b.Count(answered(3))
	b.Count(append(answered(2), status.Sum{
		Asker: status.LetsEncrypt, Outcome: status.Failed, Cause: "refused", Bucket: status.Bucket(time.Second), Count: 1, Took: time.Second,
	}))
	b.Refused([]status.RefusedSum{{Refusal: status.NotChallenge, Asker: status.OtherAsker, Count: 4}})
	first := b.Report(status.Table{})
	want := status.Traffic{
		Requests: []status.RequestCount{
			{Outcome: "not-challenge", Client: status.OtherAsker, Count: 4},
			{Outcome: status.Answered, Client: status.CertManager, Count: 5},
			{Outcome: status.Failed, Client: status.LetsEncrypt, Count: 1},
		},
		Durations:      status.Histogram{Count: 6, Sum: 1.015, Buckets: map[int]uint64{status.Bucket(3 * time.Millisecond): 5, 0: 1}},
		UpstreamErrors: map[string]uint64{"refused": 1},
	}
	if diff := cmp.Diff(want, first.Traffic); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b.Count(answered(1))
	if diff := cmp.Diff(want, first.Traffic); diff != "" {
		t.Errorf("a report changes afterwards:\n%s", diff)
	}
	if first.Challenges.Total != 6 {
		t.Errorf("total %d", first.Challenges.Total)
	}
}

// TestBucket: a bucket holds what is over the bound of the one before and up to
// its own (Prometheus, native histograms: upper bound inclusive).
func TestBucket(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]int{
		-1: status.FirstBucket, 0: status.FirstBucket, time.Nanosecond: status.FirstBucket, time.Hour: status.LastBucket,
		time.Second: 0, time.Second + 1: 1, time.Second - 1: 0, 2 * time.Second: 8, 250 * time.Millisecond: -16,
		time.Second / 2: -8, time.Second/2 + 1: -7, 64 * time.Second: status.LastBucket,
	} {
		if got := status.Bucket(d); got != want {
			t.Errorf("Bucket(%v) = %d, want %d", d, got, want)
		}
	}
}

func TestSentence(t *testing.T) {
	t.Parallel()
	now := start.Add(time.Hour)
	for name, tt := range map[string]struct {
		do   func(*status.Board)
		want string
	}{
		"starting": {func(*status.Board) {}, "Starting: the first look at this host is not over yet"},
		"serving": {func(b *status.Board) {
			b.SetLook(serving(), start)
			b.SetUpstreams([]status.Upstream{{Address: ingress, Checked: start, Reachable: true}}, start)
			b.Count(answered(12))
			b.Challenge(status.Challenge{Time: now.Add(-3 * time.Minute), Status: 200})
		}, "Serving: holds 192.0.2.5, upstream 192.0.2.6:80, 12 challenges, last 200 3m ago"},
		"one that went away": {func(b *status.Board) {
			b.SetLook(status.Look{Reason: status.Standby, Message: "not on this host: 192.0.2.5"}, start)
			b.Count([]status.Sum{{Asker: status.OtherAsker, Outcome: status.Unread, Count: 1}})
			b.Challenge(status.Challenge{Time: now.Add(-30 * time.Second)})
		}, "Standby: not on this host: 192.0.2.5, 1 challenge, last without an answer 30s ago"},
		"message over lines": {func(b *status.Board) {
			b.SetLook(status.Look{Reason: status.InvalidConfig, Message: "a\nREADY=1\x1b[31m"}, start)
		}, "InvalidConfig: a READY=1 [31m"},
		"very long message": {func(b *status.Board) {
			b.SetLook(status.Look{Reason: status.NoVIPs, Message: strings.Repeat("é", 5000)}, start)
		}, "NoVIPs: " + strings.Repeat("é", 494) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := status.NewBoard("test", start, ignore)
			tt.do(b)
			if got := b.Report(status.Table{}).Sentence(now); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestAge(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m",
		119 * time.Minute: "119m", 2 * time.Hour: "2h", 47 * time.Hour: "47h", 60 * 24 * time.Hour: "60d",
	} {
		if got := status.Age(d); got != want {
			t.Errorf("Age(%v) = %s, want %s", d, got, want)
		}
	}
}

// TestLookSaysItsOwn: a look may have words of its own for an ingress that is silent,
// and something that is said whatever the state is.
func TestLookSaysItsOwn(t *testing.T) {
	t.Parallel()
	b := status.NewBoard("test", start, ignore)
	b.SetLook(status.Look{Reason: status.Serving, Message: "m", Silent: "the router is silent", Besides: " (besides)"}, start)
	says := func(want string) {
		t.Helper()
		if c := b.Report(status.Table{}).Condition(); string(c.Reason)+": "+c.Message != want {
			t.Errorf("%s: %s, want %s", c.Reason, c.Message, want)
		}
	}
	says("Serving: m (besides)")
	b.SetUpstreams([]status.Upstream{{Checked: start, Error: "refused"}, {Checked: start, Error: "refused"}}, start)
	says("UpstreamUnreachable: the router is silent (besides)")
}

// The condition is Serving only when the service's own request was answered on each
// held VIP; until that is known it stays.
func TestServingOnceItIsAnswered(t *testing.T) {
	t.Parallel()
	moves := 0
	b := status.NewBoard("test", start, func(_, _ status.Condition) { moves++ })
	vip := serving().VIPs[0].Address
	other := netip.MustParseAddr("2001:db8::5")
	look := func(reason status.Reason, vips ...netip.Addr) {
		l := status.Look{Reason: reason, Message: "holds " + strconv.Itoa(len(vips))}
		for _, v := range vips {
			l.VIPs = append(l.VIPs, status.VIP{Address: v, State: status.VIPHeld})
		}
		b.SetLook(l, start)
	}
	want := func(step string, reason status.Reason, message string) {
		t.Helper()
		if c := b.Report(status.Table{}).Condition(); c.Reason != reason || c.Message != message {
			t.Errorf("%s: %s: %s; want %s: %s", step, c.Reason, c.Message, reason, message)
		}
	}
	b.SetAnswer(status.Answer{}, start)
	look(status.Standby)
	want("without a VIP", status.Standby, "holds 0")
	look(status.Serving, vip)
	want("before the first answer", status.Standby, "holds 0")
	b.SetAnswer(status.Answer{VIPs: []netip.Addr{vip}}, start)
	want("after it", status.Serving, "holds 1")
	look(status.Serving, vip, other)
	want("before that of a second VIP", status.Serving, "holds 1")
	b.SetAnswer(status.Answer{VIPs: []netip.Addr{vip}, Failure: "silence"}, start)
	want("which does not come", status.GateUnavailable, "silence")
	b.SetGate("gone", start)
	want("without a gate", status.GateUnavailable, "gone")
	b.SetGate("", start)
	b.SetAnswer(status.Answer{VIPs: []netip.Addr{vip, other}, Note: "but"}, start)
	want("with a note", status.Serving, "holds 2; but")
	look(status.PortInUse, vip)
	want("with another reason", status.PortInUse, "holds 1")
	if moves != 7 {
		t.Errorf("%d transitions", moves)
	}
}
