// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/settled"
)

// TestTransitions checks the properties of the whole table.
func TestTransitions(t *testing.T) {
	t.Parallel()
	adopts := func(do action) bool { return do == adopt || do == adoptUncertain }
	for e := range event(events) {
		for p := range phase(phases) {
			tr := transitions()[e][p]
			for _, rule := range []struct {
				name   string
				broken bool
			}{
				{"a known configuration stays known", p != unknown && tr.to == unknown},
				{"only valid files or a candidate end the phase unknown", p == unknown && tr.to != unknown && e != candidateConfirmed && e != settledForStart && e != settledAfterStart},
				{"nothing waits for the next start after a start or stop", (e == stopped || e == startedSettled || e == startedUnsettled) && tr.to == outdated},
				{"what waited is in force after a start or stop", p == outdated && (e == stopped || e == startedSettled || e == startedUnsettled) && tr.do != adoptNext},
				{"only a version that waited can be promoted", tr.do == adoptNext && p != outdated},
				{"a version is held if and only if the phase becomes outdated by valid files", (tr.do == holdNext) != (e == settledAfterStart && tr.to == outdated)},
				{"invalid files change nothing", e == settledInvalid && tr.do != keepInForce},
				{"valid files end the phase provisional", (e == settledForStart || e == settledAfterStart) && tr.to == provisional},
				{"the running MicroShift's configuration is not replaced by later files", e == settledAfterStart && (p == current || p == outdated) && adopts(tr.do)},
				{"a start with unsettled files is provisional", e == startedUnsettled && p != unknown && tr.to != provisional},
				{"files of an unknown start may have been modified after it", e != candidateConfirmed && adopts(tr.do) && (tr.do == adoptUncertain) != (p == unknown || p == provisional)},
			} {
				if rule.broken {
					t.Errorf("event %d in phase %d: %+v breaks the rule: %s", e, p, tr, rule.name)
				}
			}
		}
	}
}

// TestApply follows a reader through its phases.
func TestApply(t *testing.T) {
	t.Parallel()
	named := func(name string) version { return version{digests: []fileDigest{{Path: name}}} }
	r := NewReader(t.TempDir(), t.TempDir(), NewStateFile(t.TempDir()))
	for i, step := range []struct {
		event   event
		version string
		phase   phase
		inForce string
		next    string
	}{
		{settledInvalid, "", unknown, "", ""},
		{startedUnsettled, "", unknown, "", ""},
		{settledAfterStart, "a", current, "a", ""},
		{settledAfterStart, "b", outdated, "a", "b"},
		{settledInvalid, "", current, "a", ""},
		{settledAfterStart, "c", outdated, "a", "c"},
		{startedSettled, "", current, "c", ""},
		{startedUnsettled, "", provisional, "c", ""},
		{settledInvalid, "", provisional, "c", ""},
		{candidateConfirmed, "d", current, "d", ""},
		{settledAfterStart, "e", outdated, "d", "e"},
		{stopped, "", current, "e", ""},
		{settledForStart, "f", current, "f", ""},
	} {
		v := version{}
		if step.version != "" {
			v = named(step.version)
		}
		r.apply(step.event, v)
		path := func(v version) string {
			if len(v.digests) == 0 {
				return ""
			}
			return v.digests[0].Path
		}
		if r.phase != step.phase || path(r.inForce) != step.inForce || path(r.next) != step.next {
			t.Fatalf("step %d: phase %d, %q in force, next %q; want %+v", i, r.phase, path(r.inForce), path(r.next), step)
		}
	}
}

func TestSettling(t *testing.T) {
	t.Parallel()
	var r Reader
	now := time.Unix(1000, 0)
	a, b, fewer := fingerprint{nonEmptyFiles: 2}, fingerprint{sum: [32]byte{1}, nonEmptyFiles: 2}, fingerprint{nonEmptyFiles: 1}
	expect := func(what string, found fingerprint, after, want time.Duration) {
		t.Helper()
		now = now.Add(after)
		if got := r.wait(found, now); got != want {
			t.Errorf("%s: wait %v, want %v", what, got, want)
		}
	}
	expect("the first files", a, 0, 0)
	r.files.Accept(a)
	expect("unchanged", a, time.Hour, 0)
	expect("changed", b, time.Second, settleTime)
	expect("still changed", b, settleTime-1, 1)
	expect("a file less", fewer, 0, settled.LossDelay)
	expect("changed again", b, time.Second, settleTime)
	expect("settled", b, settleTime, 0)
	expect("restored", a, 0, 0)
	expect("changed once more", b, time.Hour, settleTime)
}
