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
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// recentAge is how old a challenge may be that says something of now: cert-manager
// asks every ten seconds while one is pending.
const recentAge = 5 * time.Minute

// recentChallenge is the last challenge of some, if that was lately.
func (h *host) recentChallenge(of func(report.RecentChallenge) bool) (report.RecentChallenge, bool) {
	for _, c := range slices.Backward(h.challenges()) {
		if of(c) {
			return c, time.Since(c.Time) < recentAge
		}
	}
	return report.RecentChallenge{}, false
}

// challenges are the last ones that the service on this host has passed on.
func (h *host) challenges() []report.RecentChallenge {
	said, err := h.report()
	if err != nil {
		return nil
	}
	return said.Challenges.Recent
}

// lastChallenge is the last one for any of these names that was passed on for
// somebody whose challenges count, and that has ended.
func (h *host) lastChallenge(names []string) (report.RecentChallenge, bool) {
	all := h.challenges()
	return h.recentChallenge(func(c report.RecentChallenge) bool {
		return slices.Contains(names, c.Host) && c.Outcome != report.AnswerUnread && isRelevant(c, all)
	})
}

// isRelevant reports whether a challenge was asked for by cert-manager or a CA.
// Strangers make tokens up, and so does check itself.
func isRelevant(c report.RecentChallenge, all []report.RecentChallenge) bool {
	switch c.ClientKind {
	case report.CertManager, report.LetsEncrypt, report.Pebble:
		return true
	case report.StepCA:
		// Any Go program is taken for it, but a token that cert-manager has asked for
		// before is known to the CA alone.
		return slices.ContainsFunc(all, func(o report.RecentChallenge) bool {
			return o.ClientKind == report.CertManager && o.Host == c.Host && o.TokenPrefix == c.TokenPrefix
		})
	default:
		return false
	}
}

// challengeFinding is what was wrong with a challenge, as far as it is not for the check of
// the ingress to see.
func challengeFinding(c report.RecentChallenge) (findings.Finding, bool) {
	switch causeID := upstream.Cause(c.Cause); causeID {
	case "":
		return statusFinding(c)
	case upstream.NoUpstream, upstream.Refused, upstream.ConnectTimeout, upstream.Unreachable, upstream.Stopped,
		upstream.TLSUntrusted, upstream.TLSName, upstream.TLSExpired, upstream.TLSHandshake, upstream.ProxyProtocolUnexpected,
		upstream.EgressUnreachable, upstream.EgressTLS, upstream.EgressAuth, upstream.EgressDenied, upstream.EgressLoop:
		return findings.Finding{}, false
	default:
		addr, _ := netip.ParseAddrPort(c.Upstream)
		why := cause.Failure{Cause: c.Cause, Addr: addr}
		f := why.Finding(cause.Context{})
		// The service has said it with what the system or the parser told.
		if says, _, is := strings.Cut(c.Detail, ": "+f.Remediation); is {
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
		return findings.New(findings.TokenUnknown, "upstream", c.Upstream, "name", c.Host), true
	default:
		return findings.New(findings.ResponseStatus, "upstream", c.Upstream, "name", c.Host, "how", fmt.Sprintf("status %d", c.Status)), true
	}
}

// addChallengeFinding adds the fault of a challenge to what was found just now. Where
// that is the cause it is a problem now, and nothing is said twice.
func addChallengeFinding(matches []findings.Finding, c report.RecentChallenge) []findings.Finding {
	fault, bad := challengeFinding(c)
	if !bad {
		return matches
	}
	about := fmt.Sprintf(" (so it was at %s with the challenge %s…, for %s)", c.Time.Format(time.TimeOnly), c.TokenPrefix, c.ClientKind)
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
