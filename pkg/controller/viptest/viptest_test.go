// SPDX-License-Identifier: Apache-2.0

package viptest

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/changelog"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

var vip = netip.MustParseAddr("192.0.2.5")

// harness is a Tester whose requests have scripted results.
type harness struct {
	*Tester

	t          *testing.T
	mu         sync.Mutex           // held by the test, except while it sleeps
	results    []protocol.VIPTested // of the next tests; then no result
	denied     bool                 // another process does not confirm an answer
	during     func()               // called during the next test
	confirming func()               // called during each confirmation
	config     config.Config
	vips       []report.VIP
	asked      []time.Time
	tests      []report.VIPTest // published last
	events     []string
}

// with runs a Tester with an interval of 15 s and without jitter, in fake time.
func with(t *testing.T, f func(h *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h, beats := &harness{t: t}, make(chan struct{}, 1)
		beat := time.NewTicker(time.Second)
		defer beat.Stop()
		h.Tester = New(h.request, h.publish, h.record, h.confirm, beats)
		h.jitter = func(d time.Duration) time.Duration { return d }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- h.Run(ctx) }()
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-beat.C:
					beats <- struct{}{}
				}
			}
		}()
		h.mu.Lock()
		h.config = config.Default()
		f(h)
		h.mu.Unlock()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// sleep lets time pass, and the Tester act.
func (h *harness) sleep(d time.Duration) {
	h.mu.Unlock()
	<-time.After(d)
	synctest.Wait()
	h.mu.Lock()
}

func (h *harness) publish(all []report.VIPTest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tests = all
}

func (h *harness) request(_ context.Context, vips []netip.Addr) []protocol.VIPTested {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, time.Now())
	if h.during != nil {
		h.during()
		h.during = nil
	}
	if len(h.results) == 0 {
		return nil
	}
	r := h.results[0]
	h.results = h.results[1:]
	if !r.VIP.IsValid() {
		r.VIP = vips[0]
	}
	return []protocol.VIPTested{r}
}

func (h *harness) confirm(context.Context, netip.Addr) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.confirming != nil {
		h.confirming()
	}
	return !h.denied
}

func (h *harness) record(e changelog.Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range e.Attrs {
		if a.Key == "event" || a.Key == "cause" {
			h.events = append(h.events, a.Value.String())
		}
	}
}

func (h *harness) observe(state report.VIPState, management string) {
	h.vips = []report.VIP{{Address: vip, State: state, Management: management}}
	h.Observe(h.config, h.vips, false)
}

func (h *harness) configure(c config.Config) {
	h.config = c
	h.Observe(h.config, h.vips, false)
}

// test makes the tests with these results, whatever delay is between them.
func (h *harness) test(results ...protocol.VIPTested) {
	h.t.Helper()
	h.results = results
	for range 100 {
		h.sleep(time.Second)
		if len(h.results) == 0 {
			return
		}
	}
	h.t.Fatalf("%d tests were not made", len(h.results))
}

// expect expects the last result and all journal entries so far.
func (h *harness) expect(what string, result report.VIPTestResult, cause string, events ...string) {
	h.t.Helper()
	h.sleep(0)
	if len(h.tests) != 1 || h.tests[0].Result != result || h.tests[0].Cause != cause ||
		(cause == "") != (h.tests[0].Error == "") {
		h.t.Errorf("%s: %+v", what, h.tests)
	}
	if diff := cmp.Diff(events, h.events); diff != "" {
		h.t.Errorf("%s: events (-want +got):\n%s", what, diff)
	}
}

func answered(id uint64) protocol.VIPTested {
	return protocol.VIPTested{Result: report.VIPAnswered, Instance: id}
}

func failed(r report.VIPTestResult) protocol.VIPTested { return protocol.VIPTested{Result: r} }

const x, y = 1, 2

// TestSituations has each row of the table in doc.go.
func TestSituations(t *testing.T) {
	t.Parallel()
	refused, timedOut, reset, notSent := failed(report.VIPRefused), failed(report.VIPTimedOut), failed(report.VIPReset),
		failed(report.VIPNotSent)
	for name, tt := range map[string]struct {
		management string
		results    []protocol.VIPTested
		want       report.VIPTestResult
		cause      string
		events     []string
	}{
		"the VIP moves": {"", []protocol.VIPTested{
			answered(x), answered(x), timedOut, answered(y),
			answered(y), answered(y),
		}, report.VIPAnswered, "", nil},
		"the VIP moves there and back": {"", []protocol.VIPTested{
			answered(x), answered(y), answered(y), answered(x),
			answered(x),
		}, report.VIPAnswered, "", nil},
		"the holder restarts": {
			"",
			[]protocol.VIPTested{answered(x), refused, answered(y), answered(y)},
			report.VIPAnswered, "", nil,
		},
		"the holder restarts twice": {"", []protocol.VIPTested{
			answered(x), reset, answered(y), refused, answered(3),
			answered(3),
		}, report.VIPAnswered, "", nil},
		"the holder is drained": {
			"",
			[]protocol.VIPTested{answered(x), timedOut, timedOut, answered(y)},
			report.VIPAnswered, "", nil,
		},
		"BGP": {report.ManagementBGP, []protocol.VIPTested{
			answered(x), answered(y), answered(x),
			answered(y), answered(x), answered(y),
		}, report.VIPAnswered, "", nil},
		"BGP and no host": {
			report.ManagementBGP,
			[]protocol.VIPTested{timedOut, timedOut, timedOut},
			report.VIPTimedOut, "vip-unreachable-from-here",
			[]string{"vip-test-failed", "vip-unreachable-from-here"},
		},
		"this host's own output chain": {
			"",
			[]protocol.VIPTested{answered(x), notSent, notSent, notSent, notSent},
			report.VIPNotSent, "vip-test-not-sent",
			[]string{"vip-test-failed", "vip-test-not-sent"},
		},
		"the output chain is corrected": {
			"",
			[]protocol.VIPTested{notSent, notSent, notSent, answered(x)},
			report.VIPAnswered, "",
			[]string{"vip-test-failed", "vip-test-not-sent", "vip-test-recovered", "vip-test-not-sent"},
		},
		"a reset by the own chain": {
			"",
			[]protocol.VIPTested{refused, refused, refused},
			report.VIPRefused,
			"vip-unreachable-from-here",
			[]string{"vip-test-failed", "vip-unreachable-from-here"},
		},
		"the own input drops the reply": {
			"",
			[]protocol.VIPTested{timedOut, timedOut, timedOut},
			report.VIPTimedOut,
			"vip-unreachable-from-here",
			[]string{"vip-test-failed", "vip-unreachable-from-here"},
		},
		"an older release": {"", []protocol.VIPTested{answered(0), answered(0)}, report.VIPAnswered, "", nil},
		"an upgrade of the holder": {
			"",
			[]protocol.VIPTested{answered(0), answered(x), answered(x)},
			report.VIPAnswered,
			"", nil,
		},
		"no service on the holder yet": {
			"",
			[]protocol.VIPTested{refused, refused, refused},
			report.VIPRefused,
			"vip-unreachable-from-here",
			[]string{"vip-test-failed", "vip-unreachable-from-here"},
		},
		"two failures": {
			"",
			[]protocol.VIPTested{answered(x), timedOut, refused},
			report.VIPRefused, "",
			nil,
		},
		"another program": {
			"",
			[]protocol.VIPTested{
				failed(report.VIPOtherAnswer), reset,
				failed(report.VIPOtherAnswer),
			},
			report.VIPOtherAnswer, "vip-unreachable-from-here",
			[]string{"vip-test-failed", "vip-unreachable-from-here"},
		},
		"a failure, and its end": {
			"",
			[]protocol.VIPTested{timedOut, timedOut, timedOut, refused, answered(x)},
			report.VIPAnswered, "",
			[]string{
				"vip-test-failed", "vip-unreachable-from-here", "vip-test-recovered",
				"vip-unreachable-from-here",
			},
		},
		"not sent, then no answer": {
			"",
			[]protocol.VIPTested{notSent, notSent, notSent, timedOut},
			report.VIPTimedOut,
			"vip-unreachable-from-here",
			[]string{
				"vip-test-failed", "vip-test-not-sent", "vip-test-failed",
				"vip-unreachable-from-here",
			},
		},
		"no answer, then not sent": {
			"",
			[]protocol.VIPTested{timedOut, timedOut, timedOut, notSent},
			report.VIPNotSent,
			"vip-unreachable-from-here",
			[]string{"vip-test-failed", "vip-unreachable-from-here"},
		},
		"a duplicate VIP": {
			"",
			[]protocol.VIPTested{answered(x), answered(y), answered(x), answered(y)},
			report.VIPTwoHosts, "vip-two-hosts",
			[]string{"vip-test-failed", "vip-two-hosts"},
		},
		"one of an older release": {
			"",
			[]protocol.VIPTested{answered(x), answered(0), answered(x), answered(0)},
			report.VIPTwoHosts, "vip-two-hosts",
			[]string{"vip-test-failed", "vip-two-hosts"},
		},
		"a duplicate VIP, and its end": {
			"",
			[]protocol.VIPTested{
				answered(x), answered(y), answered(x), answered(y),
				answered(y), answered(y), answered(y), answered(y), answered(y),
			},
			report.VIPAnswered, "",
			[]string{"vip-test-failed", "vip-two-hosts", "vip-test-recovered", "vip-two-hosts"},
		},
		"a duplicate VIP, and failures": {
			"",
			[]protocol.VIPTested{
				answered(x), answered(y), answered(x), answered(y),
				timedOut, answered(x), timedOut, answered(y),
			},
			report.VIPTwoHosts, "vip-two-hosts",
			[]string{"vip-test-failed", "vip-two-hosts"},
		},
		"a duplicate VIP, then none": {"", []protocol.VIPTested{
			answered(x), answered(y), answered(x), answered(y), timedOut,
			timedOut, timedOut,
		}, report.VIPTimedOut, "vip-unreachable-from-here", []string{
			"vip-test-failed", "vip-two-hosts",
			"vip-test-failed", "vip-unreachable-from-here",
		}},
		"two hosts answer slowly": {"", []protocol.VIPTested{
			answered(x), answered(x), answered(y), answered(x), answered(x),
			answered(y),
		}, report.VIPTwoHosts, "vip-two-hosts", []string{"vip-test-failed", "vip-two-hosts"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			with(t, func(h *harness) {
				h.observe(report.VIPStandby, tt.management)
				h.test(tt.results...)
				h.expect(name, tt.want, tt.cause, tt.events...)
			})
		})
	}
}

// TestNotTested: a host that holds the VIP, or needs none, sends nothing; nor does one whose
// tests are turned off.
func TestNotTested(t *testing.T) {
	t.Parallel()
	with(t, func(h *harness) {
		for _, state := range []report.VIPState{report.VIPHeld, report.VIPNotRequired} {
			h.observe(state, "")
			h.sleep(time.Hour)
		}
		h.Observe(h.config, []report.VIP{{Address: netip.MustParseAddr("fe80::1"), State: report.VIPStandby}}, false)
		h.sleep(time.Hour)
		h.Observe(h.config, []report.VIP{{Address: vip, State: report.VIPStandby}}, true) // MicroShift
		h.sleep(time.Hour)
		for _, change := range []func(*config.Config){
			func(c *config.Config) { c.VIPs.TestInterval = 0 }, func(c *config.Config) { c.Mode = config.ModeDisabled },
		} {
			c := config.Default()
			change(&c)
			h.configure(c)
			h.observe(report.VIPStandby, "")
			h.sleep(time.Hour)
		}
		if len(h.asked) != 0 || len(h.tests) != 0 {
			t.Errorf("%v, %+v", h.asked, h.tests)
		}
	})
}

// TestTurnedOff: the results go with the tests, and return with them.
func TestTurnedOff(t *testing.T) {
	t.Parallel()
	with(t, func(h *harness) {
		h.observe(report.VIPStandby, "")
		h.test(failed(report.VIPTimedOut), failed(report.VIPTimedOut), failed(report.VIPTimedOut))
		h.expect("before", report.VIPTimedOut, "vip-unreachable-from-here", "vip-test-failed", "vip-unreachable-from-here")
		off := config.Default()
		off.VIPs.TestInterval = 0
		h.configure(off)
		n := len(h.asked)
		h.sleep(time.Hour)
		if len(h.tests) != 0 || len(h.asked) != n {
			t.Errorf("%+v, %d tests", h.tests, len(h.asked)-n)
		}
		h.configure(config.Default())
		h.test(answered(x))
		h.expect("after", report.VIPAnswered, "", "vip-test-failed", "vip-unreachable-from-here")
	})
}

// TestNoResult: a process that is replaced, does not answer, or answers for another VIP changes
// nothing, so it cannot end a finding either.
func TestNoResult(t *testing.T) {
	t.Parallel()
	with(t, func(h *harness) {
		h.observe(report.VIPStandby, "")
		h.test(failed(report.VIPTimedOut), failed(report.VIPTimedOut), failed(report.VIPTimedOut))
		before := h.tests[0]
		h.test(protocol.VIPTested{VIP: netip.MustParseAddr("192.0.2.77"), Result: report.VIPAnswered})
		h.sleep(time.Minute)
		if diff := cmp.Diff([]report.VIPTest{before}, h.tests,
			cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestOldResult: a result is dropped when no other one follows, so that nobody takes it for a new one.
func TestOldResult(t *testing.T) {
	t.Parallel()
	with(t, func(h *harness) {
		h.observe(report.VIPStandby, "")
		h.test(answered(x))
		h.sleep(time.Minute)
		if len(h.tests) != 1 {
			t.Errorf("after a minute: %+v", h.tests)
		}
		h.sleep(time.Minute)
		if len(h.tests) != 0 {
			t.Errorf("after two minutes: %+v", h.tests)
		}
	})
}

// TestShortInterval: a restart of some seconds is no finding with a short interval either.
func TestShortInterval(t *testing.T) {
	t.Parallel()
	with(t, func(h *harness) {
		c := config.Default()
		c.VIPs.TestInterval = time.Second
		h.configure(c)
		h.observe(report.VIPStandby, "")
		refused := failed(report.VIPRefused)
		h.test(answered(x), refused, refused, refused, refused, refused)
		h.expect("five seconds", report.VIPRefused, "")
		h.test(refused, refused, refused, refused, refused, refused)
		h.expect("eleven seconds", report.VIPRefused, "vip-unreachable-from-here", "vip-test-failed",
			"vip-unreachable-from-here")
	})
}

// TestHostileProxy: the proxy process alone cannot end a finding.
func TestHostileProxy(t *testing.T) {
	t.Parallel()
	with(t, func(h *harness) {
		h.observe(report.VIPStandby, "")
		h.test(failed(report.VIPTimedOut), failed(report.VIPTimedOut), failed(report.VIPTimedOut))
		h.denied = true
		h.test(answered(x), failed(report.VIPNotSent), answered(x), answered(x))
		h.expect("invented", report.VIPNotSent, "vip-unreachable-from-here", "vip-test-failed", "vip-unreachable-from-here")
		h.denied = false
		h.test(answered(x))
		h.expect("confirmed", report.VIPAnswered, "", "vip-test-failed", "vip-unreachable-from-here", "vip-test-recovered",
			"vip-unreachable-from-here")
	})
}

// TestGainedDuringTest: a result is dropped if this host held the VIP meanwhile, even for a
// moment, and so is all before it.
func TestGainedDuringTest(t *testing.T) {
	t.Parallel()
	for _, back := range []bool{false, true} {
		with(t, func(h *harness) {
			h.observe(report.VIPStandby, "")
			h.test(answered(x), answered(y), answered(x))
			h.during = func() {
				h.observe(report.VIPHeld, "")
				if back {
					h.observe(report.VIPStandby, "")
				}
			}
			h.test(answered(y))
			if len(h.tests) != 0 {
				t.Errorf("%+v", h.tests)
			}
			h.observe(report.VIPStandby, "")
			h.test(answered(x), answered(y))
			h.expect("back", report.VIPAnswered, "")
		})
	}
}

// TestGainedDuringConfirmation: a finding does not end by the answer of this host's own service.
func TestGainedDuringConfirmation(t *testing.T) {
	t.Parallel()
	with(t, func(h *harness) {
		h.observe(report.VIPStandby, "")
		h.test(failed(report.VIPTimedOut), failed(report.VIPTimedOut), failed(report.VIPTimedOut))
		h.confirming = func() { h.observe(report.VIPHeld, "") }
		h.test(answered(x))
		h.sleep(0)
		if len(h.tests) != 0 || slices.Contains(h.events, "vip-test-recovered") {
			t.Errorf("%+v, %v", h.tests, h.events)
		}
	})
}

// TestSchedule: the interval, sooner after a failure or another instance, and never later when
// VIPs change.
func TestSchedule(t *testing.T) {
	t.Parallel()
	with(t, func(h *harness) {
		c := config.Default()
		c.VIPs.TestInterval = time.Hour
		h.configure(c)
		h.observe(report.VIPStandby, "")
		begin := time.Now()
		h.results = []protocol.VIPTested{
			answered(x), answered(x), answered(y), answered(y), answered(y), answered(y), answered(y), answered(y), answered(y),
			failed(report.VIPTimedOut), failed(report.VIPTimedOut), answered(y), answered(y),
		}
		h.sleep(6 * time.Hour)
		var delays []time.Duration
		for _, at := range h.asked[:12] {
			delays = append(delays, at.Sub(begin))
			begin = at
		}
		want := slices.Concat([]time.Duration{firstDelay, time.Hour, time.Hour}, slices.Repeat([]time.Duration{followUpDelay},
			followUps),
			[]time.Duration{time.Hour, time.Hour, failedInterval, failedInterval})
		if diff := cmp.Diff(want, delays); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	with(t, func(h *harness) { // several hosts may answer: no test follows sooner
		h.observe(report.VIPStandby, report.ManagementBGP)
		for i := range 40 {
			h.results = append(h.results, answered(uint64(1+i%2)))
		}
		h.sleep(firstDelay + 9*15*time.Second)
		if len(h.asked) != 10 {
			t.Errorf("%d tests of a VIP of several hosts", len(h.asked))
		}
	})
	with(t, func(h *harness) { // failures after another instance are as far apart as others
		h.observe(report.VIPStandby, "")
		h.test(answered(x), answered(y))
		begin := time.Now()
		h.test(failed(report.VIPRefused), failed(report.VIPRefused), failed(report.VIPRefused))
		if took := time.Since(begin); took < 2*failedInterval {
			t.Errorf("three failures within %v", took)
		}
	})
	with(t, func(h *harness) {
		n := len(h.asked)
		for i := range 60 { // another VIP comes and goes each second
			all := []report.VIP{{Address: vip, State: report.VIPStandby}, {
				Address: netip.MustParseAddr("192.0.2.7"),
				State:   report.VIPStandby,
			}}
			h.Observe(h.config, all[:1+i%2], false)
			h.sleep(time.Second)
		}
		if n = len(h.asked) - n; n < 10 {
			t.Errorf("%d tests within a minute", n)
		}
	})
}

// TestReported: the times and the instance of a result.
func TestReported(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 4, 0, 0, 500, time.UTC)
	at := func(seconds int) time.Time {
		return now.Truncate(time.Second).Add(time.Duration(seconds) * time.Second)
	}
	var s state
	step := func(seconds int, r protocol.VIPTested, want report.VIPTest) {
		t.Helper()
		r.VIP, want.VIP = vip, vip
		s = s.next(r, false, now.Add(time.Duration(seconds)*time.Second))
		got := s.reported
		got.Cause, got.Error = "", ""
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	id := "00000000000000ff"
	step(0, answered(255), report.VIPTest{
		Result: report.VIPAnswered, Since: at(0), Checked: at(0), Instance: id,
		InstanceSince: at(0),
	})
	step(15, answered(255), report.VIPTest{
		Result: report.VIPAnswered, Since: at(0), Checked: at(15), Instance: id,
		InstanceSince: at(0),
	})
	step(30, failed(report.VIPReset), report.VIPTest{
		Result: report.VIPReset, Since: at(30), Checked: at(30), Instance: id,
		InstanceSince: at(0), Failures: 1,
	})
	step(45, failed(report.VIPReset), report.VIPTest{
		Result: report.VIPReset, Since: at(30), Checked: at(45), Instance: id,
		InstanceSince: at(0), Failures: 2,
	})
	step(60, answered(0), report.VIPTest{
		Result: report.VIPAnswered, Since: at(60), Checked: at(60),
		InstanceSince: at(60),
	})
}
