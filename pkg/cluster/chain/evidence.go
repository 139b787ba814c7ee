// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/check"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// addNodes shows the nodes that hold an API VIP or have seen a Challenge, and adds why requests for it failed. It
// returns the end of a sentence about the requests, which is empty if no node reported. Without a Challenge, it shows
// the holders alone.
func (e *examiner) addNodes(depth int, challenge Object) (seen string) {
	requests, reported := 0, false
	for _, h := range e.hosts {
		reported = reported || h.Problem == ""
		recent := h.Challenges.Recent
		all := slices.DeleteFunc(slices.Clone(recent), func(c report.RecentChallenge) bool {
			return c.TokenPrefix == "" || !strings.HasPrefix(challenge.Spec.Token, c.TokenPrefix) || !c.IsValidation(recent) ||
				!strings.EqualFold(c.Host, challenge.Spec.DNSName)
		})
		var texts []string
		for _, v := range h.VIPs {
			if v.IsHeld() {
				texts = append(texts, v.Address.String())
			}
		}
		if h.Problem != "" || len(texts)+len(all) == 0 {
			continue
		}
		requests += len(all)
		if len(texts) > 0 {
			texts = []string{"holds " + strings.Join(texts, ", ")}
		}
		if challenge.Kind != "" {
			texts = append(texts, e.describe(all))
		}
		state := rule{state: string(h.Condition.Reason)}
		if len(all) > 0 {
			state.outcome = report.CheckOK
			for _, f := range verdict.Response(all[len(all)-1]) {
				state.outcome = report.CheckProblem
				f.Commands = check.Commands(h.Name, f.ID, f.Commands)
				e.find(f, h.Name)
			}
		}
		e.add(depth, named("Node", "", h.Name), state, strings.Join(texts, "; "), h.StateSince)
	}
	switch {
	case !reported:
		return ""
	case requests == 0:
		return ". The nodes report no request for it"
	}
	return fmt.Sprintf(". The nodes report %s for it", report.Count(requests, "request"))
}

// describe describes requests by the kind of the client.
func (e *examiner) describe(all []report.RecentChallenge) string {
	if len(all) == 0 {
		return "no request for this challenge"
	}
	var texts []string
	count, last := map[report.ClientKind]int{}, map[report.ClientKind]report.RecentChallenge{}
	for _, c := range all {
		count[c.ClientKind]++
		last[c.ClientKind] = c
	}
	for _, kind := range report.ClientKinds() {
		if count[kind] > 0 {
			texts = append(texts, fmt.Sprintf("%s of %s, the last got %d %s ago", report.Count(count[kind], "request"), kind,
				last[kind].Status, report.Age(e.now.Sub(last[kind].Time))))
		}
	}
	if count[report.CertManager] == len(all) {
		texts = append(texts, "none of a CA")
	}
	return strings.Join(texts, "; ")
}
