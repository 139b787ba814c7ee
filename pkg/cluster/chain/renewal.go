// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// The directories of CAs.
const (
	letsEncrypt        = "https://acme-v02.api.letsencrypt.org/directory"
	letsEncryptStaging = "https://acme-staging-v02.api.letsencrypt.org/directory"
	googleStaging      = "https://dv.acme-v02.test-api.pki.goog/directory"

	day = 24 * time.Hour
)

// reuseAt is for how long Let's Encrypt reuses an authorization at a time
// (https://letsencrypt.org/docs/profiles/ and its plan until 2028).
func reuseAt(profile string, at time.Time) time.Duration {
	switch {
	case profile == "shortlived", profile == "tlsserver", !at.Before(time.Date(2028, 2, 16, 0, 0, 0, 0, time.UTC)):
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
	if server != letsEncrypt && server != letsEncryptStaging {
		return report.ChallengeUnknown, "for how long the CA reuses an authorization is not known"
	}
	reuse := reuseAt(profile, renewal)
	reason = "Let's Encrypt then reuses an authorization for " + report.Age(reuse)
	if renewal.Sub(since) > reuse+backdating {
		return report.ChallengeRequired, reason
	}
	return report.ChallengePossible, reason
}
