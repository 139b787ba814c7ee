// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// rule is what a condition of objects means. The first rule that applies to an object counts.
type rule struct {
	kind      string // the end of their kind
	condition string // empty: status.state
	value     string // status or reason of the condition; empty: there is no such condition
	outcome   report.CheckOutcome
	state     string // empty: status.state
	finding   findings.ID
	after     time.Duration // the age from which on there is a finding
}

const (
	// staging is the condition Ready of an issuer that uses a CA for tests.
	staging = "staging"
	// failed is the state of an Order or a Challenge that cannot become valid.
	failed = "failed"
	// short is the condition of an Order whose authorizations end within hours. It is the state.
	short = "short"
)

// pendingTime is for how long Let's Encrypt keeps an authorization of such an Order that is not validated. cert-manager
// does not notice the end until its self check passes (pkg/controller/acmechallenges/sync.go).
const pendingTime = time.Hour

// anyValue is the value of a rule for all values.
const anyValue = "*"

// rules returns the rules. cert-manager or a policy approves a request within seconds. An issuance takes a few minutes.
func rules() []rule {
	return []rule{
		{"Certificate", "Issuing", "True", "", "issuing", findings.CertificateNotReady, 10 * time.Minute},
		{"Certificate", "Issuing", "False", report.CheckProblem, "failed", findings.CertificateNotReady, 0},
		{"Certificate", "Ready", "True", report.CheckOK, "ready", "", 0},
		{"Certificate", "Ready", anyValue, report.CheckProblem, "not ready", findings.CertificateNotReady, 0},
		{"Issuer", "Ready", "missing", report.CheckProblem, "missing", findings.IssuerNotReady, 0},
		{"Issuer", "Ready", "external", "", "not examined", "", 0},
		{"Issuer", staging, "True", report.CheckWarning, "ready", findings.IssuerStaging, 0},
		{"Issuer", "Ready", "True", report.CheckOK, "ready", "", 0},
		{"Issuer", "Ready", anyValue, report.CheckProblem, "not ready", findings.IssuerNotReady, 0},
		{"CertificateRequest", "Denied", "True", report.CheckProblem, "denied", findings.RequestDenied, 0},
		{"CertificateRequest", "Ready", "True", report.CheckOK, "issued", "", 0},
		{"CertificateRequest", "Ready", "Failed", report.CheckProblem, "failed", "", 0},
		{
			"CertificateRequest", "Approved", "", report.CheckWarning, "not approved", findings.RequestNotApproved,
			30 * time.Second,
		},
		{"CertificateRequest", "Ready", anyValue, "", "pending", "", 0},
		{"Order", "", failed, report.CheckProblem, "", findings.OrderFailed, 0},
		{"Order", short, "pending", "", "", findings.OrderOutdated, pendingTime},
		{"Order", "", "valid", report.CheckOK, "", "", 0},
		{"Order", "", "", "", "new", "", 0},
		{"Order", "", anyValue, "", "", "", 0},
		{"Challenge", "", failed, report.CheckProblem, "", "", 0},
		{"Challenge", "", "valid", report.CheckOK, "", "", 0},
		{"Challenge", "", "", "", "waits for cert-manager", "", 0},
		{"Challenge", "", anyValue, report.CheckWarning, "", findings.ChallengePending, 0},
		{"Pod", "Ready", "False", report.CheckWarning, "not ready", "", 0},
		{"Pod", "Ready", "", report.CheckWarning, "not ready", "", 0},
		{"Route", "Admitted", "True", report.CheckOK, "admitted", "", 0},
		{"Route", "Admitted", anyValue, report.CheckProblem, "not admitted", "", 0},
	}
}

// judge returns the rule for an object, and the condition.
func judge(o Object) (rule, metav1.Condition) {
	for _, r := range rules() {
		c := o.condition(r.condition)
		applies := r.value == anyValue || r.value == string(c.Status) || r.value != "" && r.value == c.Reason
		if applies && strings.HasSuffix(o.Kind, r.kind) {
			r.state = cmp.Or(r.state, o.Status.State)
			return r, c
		}
	}
	return rule{outcome: report.CheckOK, state: "present"}, metav1.Condition{}
}

// reasonOf returns the text of the condition of an object, or what else explains its state.
func (e *examiner) reasonOf(o Object, r rule, c metav1.Condition) string {
	switch {
	case r.condition == staging:
		return o.Spec.ACME.Server + ", a CA for tests"
	case r.state == "failed" && o.Kind == "Certificate":
		return fmt.Sprintf("failed attempts: %d; %s", max(1, o.Status.FailedIssuanceAttempts), c.Message)
	case r.state == "not ready" && o.Kind == "Pod":
		return o.Status.Phase + ": " + c.Message
	case o.Kind == "Challenge" && o.Spec.DNSName != e.Name:
		return o.Spec.DNSName + ": " + c.Message
	case o.Kind == "Route":
		return c.Reason + ": " + c.Message
	case r.outcome != report.CheckOK:
		return c.Message
	case len(o.Status.Authorizations) > 0 && o.Status.Authorizations[0].InitialState == "valid":
		return "without a challenge: the CA reused an authorization"
	}
	return o.Spec.ACME.Server
}

// failureOf classifies the reason of a failed order by the problem type of the CA. A paused name has the type of
// a rate limit too (boulder, wfe2/wfe.go and probs.Paused).
func failureOf(reason string) findings.ID {
	switch {
	case strings.Contains(reason, "temporarily prevented from requesting certificates"):
		return findings.CANamePaused
	case strings.Contains(reason, "urn:ietf:params:acme:error:rateLimited"):
		return findings.CARateLimited
	}
	return findings.OrderFailed
}

// LetsEncrypt and the others are the directories of CAs.
const (
	LetsEncrypt        = "https://acme-v02.api.letsencrypt.org/directory"
	LetsEncryptStaging = "https://acme-staging-v02.api.letsencrypt.org/directory"
	googleStaging      = "https://dv.acme-v02.test-api.pki.goog/directory"

	day = 24 * time.Hour
)

// isShort reports whether authorizations of a profile of Let's Encrypt end within hours
// (https://letsencrypt.org/docs/profiles/).
func isShort(profile string) bool { return profile == "shortlived" || profile == "tlsserver" }

// reuseAt is for how long Let's Encrypt reuses an authorization at a time
// (https://letsencrypt.org/docs/profiles/ and its plan until 2028).
func reuseAt(profile string, at time.Time) time.Duration {
	switch {
	case isShort(profile), !at.Before(time.Date(2028, 2, 16, 0, 0, 0, 0, time.UTC)):
		return 7 * time.Hour
	case !at.Before(time.Date(2027, 2, 10, 0, 0, 0, 0, time.UTC)):
		return 10 * day
	default:
		return 30 * day
	}
}

// backdating is how much earlier than its issuance a certificate of Let's Encrypt is valid.
const backdating = time.Hour

// needsChallenge returns whether a renewal needs a challenge, and why. The certificate is valid since a time. The
// CA may reuse the authorization of its order, which may be older than the certificate.
func needsChallenge(server, profile string, since, renewal time.Time) (needs, reason string) {
	if server != LetsEncrypt && server != LetsEncryptStaging {
		return report.ChallengeUnknown, "for how long the CA reuses an authorization is not known"
	}
	reuse := reuseAt(profile, renewal)
	reason = "Let's Encrypt then reuses an authorization for " + report.Age(reuse)
	if renewal.Sub(since) > reuse+backdating {
		return report.ChallengeRequired, reason
	}
	return report.ChallengePossible, reason
}
