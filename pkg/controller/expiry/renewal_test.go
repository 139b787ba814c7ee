// SPDX-License-Identifier: Apache-2.0

package expiry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/challengelog"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// step is a read of the certificates, or an attempt that ended just before it.
type step struct {
	at      time.Duration // since startTime
	attempt *challengelog.Attempt
	found   []report.Certificate
	pending bool   // after the step
	want    string // of the failed attempt: count, attempts left and cause; empty: none
}

// TestFailedRenewals: an attempt has failed when the API server still presents the previous
// certificate 15 minutes after its last request.
func TestFailedRenewals(t *testing.T) {
	t.Parallel()
	type all = []report.Certificate
	const day = 24 * time.Hour
	const late = 60*day + time.Minute // the renewal of 90 days is due
	ended := func(at time.Duration, token uint64, change ...func(*challengelog.Attempt)) *challengelog.Attempt {
		a := challengelog.Attempt{
			Name: api, Token: token, Started: startTime.Add(at - 20*time.Second),
			Ended: startTime.Add(at), Text: "what was observed", Cause: "route-missing",
		}
		for _, c := range change {
			c(&a)
		}
		return &a
	}
	invalid := func(a *challengelog.Attempt) { a.Invalid = true }
	refused := func(a *challengelog.Attempt) { a.Cause = "ingress-refused" }
	old, next := all{presents(vip4, "", "i", 0), presents(vip4, api, "a", 0), presents(vip6, api, "a", 0)},
		all{presents(vip4, "", "i", 0), presents(vip4, api, "b", 60), presents(vip6, api, "b", 60)}
	half := all{presents(vip4, "", "i", 0), presents(vip4, api, "a", 0), presents(vip6, api, "b", 60)}
	silent := all{unanswered(vip4, ""), unanswered(vip4, api), unanswered(vip6, api)}
	for name, steps := range map[string][]step{
		"renewed at once": {
			{at: 0, found: old},
			{at: late, attempt: ended(late, 1), found: old, pending: true},
			{at: late + time.Minute, found: next},
			{at: late + time.Hour, found: next},
		},
		"renewed at one address": {
			{at: 0, found: old},
			{at: late, attempt: ended(late, 1), found: old, pending: true},
			{at: late + time.Minute, found: half},
		},
		"renewed before the challenge has ended": {
			{at: 0, found: old},
			{at: late, found: next},
			{at: late + time.Second, attempt: ended(late+time.Second, 1), found: next},
		},
		"failed three times, then renewed": {
			{at: 0, found: old},
			{at: late, attempt: ended(late, 1), found: old, pending: true},
			{at: late + 14*time.Minute, found: old, pending: true},
			{at: late + 15*time.Minute, found: old, want: "1 27 route-missing"},
			{at: late + time.Hour, found: old},
			{at: late + time.Hour + time.Minute, attempt: ended(late+time.Hour+time.Minute, 2), found: old, pending: true},
			{at: late + 2*time.Hour, found: old, want: "2 26 route-missing"},
			{at: late + 3*time.Hour + time.Minute, attempt: ended(late+3*time.Hour+time.Minute, 3), found: old, pending: true},
			{at: late + 4*time.Hour, found: old, want: "3 25 route-missing"},
			{at: late + 5*time.Hour, found: next},
			{at: late + 6*time.Hour, found: old},
		},
		"a challenge that stays pending is one attempt": {
			{at: 0, found: old},
			{at: late, attempt: ended(late, 1), found: old, pending: true},
			{at: late + 30*time.Minute, attempt: ended(late+30*time.Minute, 1), found: old, want: "1 27 route-missing"},
			{at: late + time.Hour, attempt: ended(late+time.Hour, 1), found: old},
		},
		"before the renewal is due": {
			{at: 0, found: old},
			{at: day, attempt: ended(day, 1), found: old},
			{at: 2 * day, found: old},
		},
		"rejected by the CA before the renewal is due": {
			{at: 0, found: old},
			{at: day, attempt: ended(day, 1, invalid), found: old, pending: true},
			{at: day + 15*time.Minute, found: old, want: "1 71 route-missing"},
			{at: day + time.Hour, attempt: ended(day+time.Hour, 2), found: old, pending: true},
			{at: day + 2*time.Hour, found: old, want: "2 70 route-missing"},
		},
		"requests that look like other attempts do not put off the decision": {
			{at: 0, found: old},
			{at: late, attempt: ended(late, 1), found: old, pending: true},
			{at: late + 10*time.Minute, attempt: ended(late+10*time.Minute, 2), found: old, pending: true},
			{at: late + 15*time.Minute, found: old, want: "1 27 route-missing"},
		},
		"an attempt that cannot be forged replaces one that can": {
			{at: 0, found: old},
			{at: late, attempt: ended(late, 1), found: old, pending: true},
			{at: late + 5*time.Minute, attempt: ended(late+5*time.Minute, 2, invalid, refused), found: old, pending: true},
			{at: late + 10*time.Minute, attempt: ended(late+10*time.Minute, 3, invalid), found: old, pending: true},
			{at: late + 20*time.Minute, found: old, want: "1 27 ingress-refused"},
		},
		"another name": {
			{at: 0, found: old},
			{at: late, attempt: ended(late, 1, func(a *challengelog.Attempt) { a.Name = "www.example.com" }), found: old},
			{at: late, attempt: ended(late, 1, func(a *challengelog.Attempt) { a.Name = "" }), found: old},
		},
		"an API server that does not answer": {
			{at: 0, found: old},
			{at: late, attempt: ended(late, 1), found: silent, pending: true},
			{at: late + time.Hour, found: silent, pending: true},
			{at: late + 2*time.Hour, found: old, want: "1 27 route-missing"},
		},
		"a name that is watched no longer": {
			{at: 0, found: old},
			{at: late, attempt: ended(late, 1), found: old, pending: true},
			{at: late + time.Minute, found: old[:1]},
			{at: late + time.Hour, found: old},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h history
			count := 0
			for i, s := range steps {
				now := startTime.Add(s.at)
				if s.attempt != nil {
					h.addAttempt(*s.attempt, now)
				}
				known, _, failed := h.record(s.found, now)
				var got []string
				for _, f := range failed {
					got = append(got, fmt.Sprintf("%d %d %s", f.Certificate.FailedRenewals, f.AttemptsLeft, f.Attempt.Cause))
					count = f.Certificate.FailedRenewals
				}
				if diff := cmp.Diff(s.want, strings.Join(got, ", ")); diff != "" || h.attemptsPending() != s.pending {
					t.Errorf("step %d: pending %t, (-want +got):\n%s", i, h.attemptsPending(), diff)
				}
				for _, c := range known {
					if c.Serial == "b" || len(s.found) == 1 {
						count = 0
					}
					if want := map[bool]int{true: count}[c.Name == api]; c.FailedRenewals != want {
						t.Errorf("step %d: %d failed renewals in the report, want %d: %+v", i, c.FailedRenewals, want, c)
					}
				}
			}
		})
	}
}

// TestFailedRenewalText: the line for the journal has cause, attempts left and remediation.
func TestFailedRenewalText(t *testing.T) {
	t.Parallel()
	var h history
	short := report.Certificate{
		Address: vip4, Name: api, Issuer: "YE1", Serial: "a", NotBefore: startTime,
		NotAfter: startTime.Add(160 * time.Hour),
	}
	h.record([]report.Certificate{short}, startTime)
	at := short.RenewalTime().Add(time.Minute)
	if !h.addAttempt(challengelog.Attempt{Name: api, Token: 1, Started: at, Ended: at, Text: "the CA got 503"}, at) {
		t.Fatal("the attempt is ignored")
	}
	_, _, failed := h.record([]report.Certificate{short}, at.Add(settleTime))
	if len(failed) != 1 {
		t.Fatalf("%d failed attempts", len(failed))
	}
	const want = "an attempt to renew the certificate that the API server presents on 192.0.2.5:6443 for " +
		"api.example.com failed: the CA got 503; " +
		"failed attempts observed by this host: 1; with cert-manager's defaults, further attempts before the expiry: at " +
		"most 6, at 2026-03-07 16:00 UTC; " +
		"fix the cause that http01-proxyd check and oc describe challenge -A report, then run cmctl renew"
	if diff := cmp.Diff(want, failed[0].Text()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
