// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// recentAge is the maximum age of a relevant challenge. cert-manager retries every ten
// seconds while one is pending.
const recentAge = 5 * time.Minute

// Challenges are the last challenges that the service on this host forwarded.
type Challenges []report.RecentChallenge

// last is the last matching challenge, if it is recent.
func (c Challenges) last(match func(report.RecentChallenge) bool) *report.RecentChallenge {
	for _, one := range slices.Backward(c) {
		if match(one) {
			if time.Since(one.Time) < recentAge {
				return &one
			}
			return nil
		}
	}
	return nil
}

// LastFor is the last recent challenge for these names by cert-manager or a CA that was
// completed.
func (c Challenges) LastFor(names []string) *report.RecentChallenge {
	return c.last(func(one report.RecentChallenge) bool {
		return slices.Contains(names, one.Host) && one.Outcome != report.AnswerUnread && one.IsValidation(c)
	})
}

// LastForAddress is the last recent challenge for an IP address, for which the router had no
// route.
func (c Challenges) LastForAddress() *report.RecentChallenge {
	return c.last(func(one report.RecentChallenge) bool {
		return one.Cause == string(findings.RouteMissingForAddress) && one.IsValidation(c)
	})
}

// LastWithToken is the last request of cert-manager or a CA for a token.
func (c Challenges) LastWithToken(token string) *report.RecentChallenge {
	for _, one := range slices.Backward(c) {
		if one.TokenPrefix != "" && strings.HasPrefix(token, one.TokenPrefix) && one.IsValidation(c) {
			return &one
		}
	}
	return nil
}

// addChallengeFinding adds the fault of a challenge to the current findings, unless the check of the ingress
// reports it. If it is one of them, its level becomes Problem and it is not repeated.
func addChallengeFinding(matches []findings.Finding, c report.RecentChallenge) []findings.Finding {
	found := verdict.Response(c)
	if len(found) == 0 {
		return matches
	}
	fault := found[0]
	entry, _ := findings.Lookup(fault.ID)
	afterConnection := []findings.ID{ // perhaps of the solver
		findings.IngressClosedConnection, findings.IngressResetConnection, findings.IngressNoResponse,
		findings.LocalResources, findings.ExchangeGivenUp,
	}
	if entry.Check == "ingress" && !slices.Contains(afterConnection, fault.ID) {
		return matches
	}
	about := fmt.Sprintf(" (as at %s for the challenge %s… of %s)",
		c.Time.Format(time.TimeOnly), c.TokenPrefix, c.ClientKind)
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
