// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// recentAge is the maximum age of a relevant challenge. cert-manager retries every ten
// seconds while one is pending.
const recentAge = 5 * time.Minute

// recentChallenge is the last matching challenge, if it is recent.
func (h *host) recentChallenge(of func(report.RecentChallenge) bool) (report.RecentChallenge, bool) {
	for _, c := range slices.Backward(h.challenges()) {
		if of(c) {
			return c, time.Since(c.Time) < recentAge
		}
	}
	return report.RecentChallenge{}, false
}

// challenges are the last challenges that the service on this host forwarded.
func (h *host) challenges() []report.RecentChallenge {
	reported, err := h.report()
	if err != nil {
		return nil
	}
	return reported.Challenges.Recent
}

// lastChallenge is the last completed challenge for these names by cert-manager or a
// CA.
func (h *host) lastChallenge(names []string) (report.RecentChallenge, bool) {
	all := h.challenges()
	return h.recentChallenge(func(c report.RecentChallenge) bool {
		return slices.Contains(names, c.Host) && c.Outcome != report.AnswerUnread && isRelevant(c, all)
	})
}

// isRelevant reports whether cert-manager or a CA requested a challenge. Other clients,
// including check itself, use invented tokens.
func isRelevant(c report.RecentChallenge, all []report.RecentChallenge) bool {
	switch c.ClientKind {
	case report.CertManager, report.LetsEncrypt, report.Pebble:
		return true
	case report.StepCA:
		// The User-Agent is that of any Go program. But only the CA has a token that
		// cert-manager has requested before.
		return slices.ContainsFunc(all, func(o report.RecentChallenge) bool {
			return o.ClientKind == report.CertManager && o.Host == c.Host && o.TokenPrefix == c.TokenPrefix
		})
	default:
		return false
	}
}

// challengeFinding is the fault of a challenge, unless the check of the ingress reports
// it.
func challengeFinding(c report.RecentChallenge) (findings.Finding, bool) {
	if c.Cause == "" {
		return statusFinding(c)
	}
	switch id, _ := findings.ForCause(c.Cause); id {
	case findings.IngressNoAddress, findings.IngressRefused, findings.IngressTimeout, findings.IngressUnreachable, findings.ExchangeStopped,
		findings.IngressTLSUntrusted, findings.IngressTLSName, findings.IngressTLSExpired, findings.IngressTLSHandshake, findings.IngressPROXYProtocol,
		findings.EgressUnreachable, findings.EgressTLS, findings.EgressAuth, findings.EgressDenied, findings.EgressLoop:
		return findings.Finding{}, false
	default:
		addr, _ := netip.ParseAddrPort(c.Upstream)
		why := cause.Failure{Cause: c.Cause, Addr: addr}
		f := why.Finding(cause.Context{})
		// The detail of the service includes the error.
		if says, _, ok := strings.Cut(c.Detail, ". "+f.Remediation); ok {
			f.Message = says
		}
		return f, true
	}
}

func statusFinding(c report.RecentChallenge) (findings.Finding, bool) {
	switch c.Status {
	case 0, 200:
		return findings.Finding{}, false
	case 404:
		return findings.New(findings.TokenUnknown, findings.Values{"upstream": c.Upstream, "name": c.Host}), true
	default:
		return findings.New(findings.ResponseStatus, findings.Values{"upstream": c.Upstream, "name": c.Host, "how": fmt.Sprintf("status %d", c.Status)}), true
	}
}

// addChallengeFinding adds the fault of a challenge to the current findings. If it is
// one of them, its level becomes Problem and it is not repeated.
func addChallengeFinding(matches []findings.Finding, c report.RecentChallenge) []findings.Finding {
	fault, bad := challengeFinding(c)
	if !bad {
		return matches
	}
	about := fmt.Sprintf(" (as at %s for the challenge %s… of %s)", c.Time.Format(time.TimeOnly), c.TokenPrefix, c.ClientKind)
	served := fault.ID == findings.TokenUnknown || fault.ID == findings.ResponseStatus
	i := slices.IndexFunc(matches, func(f findings.Finding) bool {
		return f.ID == fault.ID || served && f.ID == findings.NameAlreadyServed
	})
	if i < 0 {
		i, matches = len(matches), append(matches, fault)
	}
	matches[i].Message += about
	matches[i].Level = findings.Problem
	return matches
}
