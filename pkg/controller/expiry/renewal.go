// SPDX-License-Identifier: Apache-2.0

package expiry

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/challengelog"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// settleTime is how long after the last request of a challenge the API server may still
// present the previous certificate: the CA issues it, cert-manager stores it, and the API
// server reads the changed Secret within minutes.
const settleTime = 15 * time.Minute

// failedRenewal is an attempt that failed.
type failedRenewal struct {
	Attempt      challengelog.Attempt
	Certificate  report.Certificate // that is still presented, with the failed attempts
	AttemptsLeft int                // at most
}

// Text describes the failure, with the remediation.
func (f failedRenewal) Text() string {
	c := f.Certificate
	expiry := report.DescribeAttempts(f.AttemptsLeft) + ", at " + formatTime(c.NotAfter)
	if f.AttemptsLeft == 0 {
		expiry = "the certificate expired at " + formatTime(c.NotAfter)
	}
	return fmt.Sprintf("an attempt to renew the certificate that the API server presents %s failed: %s; "+
		"failed attempts observed by this host: %d; %s; "+
		"fix the cause that http01-proxyd check and oc describe challenge -A report, then run cmctl renew",
		endpointsText([]report.Certificate{c}), f.Attempt.Text, c.FailedRenewals, expiry)
}

// failures are the failed attempts for a name.
type failures struct {
	count       int
	first, last time.Time
	token       uint64 // of the last one: a challenge that stays pending ends repeatedly
}

// addAttempt takes an attempt that may have failed, and reports whether the certificates must
// be read to decide that. It keeps one such attempt for each name: cert-manager's next one is
// at least an hour later. Only an attempt that cannot be forged replaces one that can:
// otherwise requests could delay the decision without limit.
func (h *history) addAttempt(a challengelog.Attempt, now time.Time) bool {
	pending, ok := h.attempts[a.Name]
	if ok && (pending.Invalid || !a.Invalid) ||
		h.failures[a.Name].token == a.Token && h.failures[a.Name].count > 0 {
		return false
	}
	presented := false
	for at, c := range h.lastSeen {
		if at.name == a.Name && a.Name != "" {
			presented = presented || a.Invalid || c.RenewalDue(now)
		}
	}
	if presented {
		if h.attempts == nil {
			h.attempts = make(map[string]challengelog.Attempt)
		}
		h.attempts[a.Name] = a
	}
	return presented
}

// attemptsPending reports whether the outcome of an attempt is still unknown.
func (h *history) attemptsPending() bool { return len(h.attempts) > 0 }

// recordChanges records which names present another certificate than before. Failures
// before a renewal count no longer.
func (h *history) recordChanges(known []report.Certificate, now time.Time) {
	changed, kept := make(map[string]time.Time), make(map[string]failures)
	for _, c := range known {
		if at, ok := h.changed[c.Name]; ok && changed[c.Name].IsZero() {
			changed[c.Name] = at
		}
		if last, had := h.lastSeen[endpointOf(c)]; had && identityOf(last) != identityOf(c) {
			changed[c.Name] = now
		}
	}
	for name, f := range h.failures {
		watched := slices.ContainsFunc(known, func(c report.Certificate) bool { return c.Name == name })
		if watched && !changed[name].After(f.first) {
			kept[name] = f
		}
	}
	h.changed, h.failures = changed, kept
}

// judgeAttempts decides which attempts succeeded, because the API server presents
// another certificate since they started, and returns those that failed, because
// settleTime passed. It sets the failures of the known certificates.
func (h *history) judgeAttempts(known []report.Certificate, now time.Time) (failed []failedRenewal) {
	for _, name := range slices.Sorted(maps.Keys(h.attempts)) {
		a := h.attempts[name]
		at := slices.IndexFunc(known, func(c report.Certificate) bool { return c.Name == name && c.Error == "" })
		watched := slices.ContainsFunc(known, func(c report.Certificate) bool { return c.Name == name })
		switch {
		case !watched || h.changed[name].After(a.Started):
			delete(h.attempts, name)
		case at >= 0 && now.Sub(a.Ended) >= settleTime:
			delete(h.attempts, name)
			f := h.failures[name]
			if f.count == 0 {
				f.first = a.Ended
			}
			h.failures[name] = failures{count: f.count + 1, first: f.first, last: a.Ended, token: a.Token}
			failed = append(failed, failedRenewal{Attempt: a, Certificate: known[at]})
		}
	}
	for i := range known {
		f := h.failures[known[i].Name]
		known[i].FailedRenewals, known[i].FirstFailure, known[i].LastFailure = f.count, f.first, f.last
	}
	for i := range failed {
		f, c := h.failures[failed[i].Attempt.Name], &failed[i].Certificate
		c.FailedRenewals, c.FirstFailure, c.LastFailure = f.count, f.first, f.last
		failed[i].AttemptsLeft = c.AttemptsLeft(now)
	}
	return failed
}
