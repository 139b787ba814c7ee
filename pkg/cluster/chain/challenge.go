// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/check"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/condition"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// usualTime is the time in which a challenge becomes valid. Self checks fail until the solver has started.
const usualTime = 2 * time.Minute

// examineChallenge examines a Challenge, the objects of its solver, and what the nodes have seen of it.
func (e *examiner) examineChallenge(c object, values findings.Values) {
	state, reason := c.Status.State, c.Status.Reason
	if c.Spec.DNSName != e.Name {
		reason = strings.Trim(c.Spec.DNSName+": "+reason, ": ")
	}
	switch {
	case failed(c):
		e.add(3, c, report.CheckProblem, state, reason, time.Time{})
	case state == "valid":
		e.add(3, c, report.CheckOK, state, reason, time.Time{})
	case state == "":
		e.add(3, c, "", "waits for cert-manager", reason, time.Time{})
	default:
		e.add(3, c, report.CheckWarning, state, reason, time.Time{})
	}
	open := !failed(c) && state != "valid"
	before := len(e.report.Findings)
	values = values.With("name", clean(c.Spec.DNSName)).With("token", c.Spec.Token)
	if c.Spec.Solver.HTTP01.Gateway != nil {
		e.find(findings.New(findings.SolverIsGateway, values))
	} else if open {
		e.examineSolver(c, values)
	}
	seen := e.addNodes(4, c)
	if age := e.now.Sub(c.Metadata.Created); open && c.Status.Reason != "" && len(e.report.Findings) == before {
		f := findings.New(findings.ChallengePending, values.With("age", report.Age(age)).
			With("reason", clean(c.Status.Reason)).With("seen", seen))
		if age < usualTime {
			f.Level = findings.Warning
		}
		e.find(f)
	}
}

// examineSolver examines the objects of the solver of an open Challenge.
func (e *examiner) examineSolver(c object, values findings.Values) {
	ingress := c.Spec.Solver.HTTP01.Ingress
	for _, kind := range []string{"Pod", "Service", "Ingress"} {
		all := e.ownedBy(c, kind)
		for _, o := range all[:min(len(all), maxSolver)] {
			e.addSolver(o, values)
		}
		given := kind == "Ingress" && ingress != nil && ingress.Name != ""
		if c.Status.Presented && len(all) == 0 && !given {
			e.addMissing(4, kind)
		}
	}
}

func (e *examiner) addMissing(depth int, kind string) {
	o := object{Kind: kind, Metadata: metadata{Name: "of the solver"}}
	e.add(depth, o, report.CheckProblem, "missing", "", time.Time{})
}

// addSolver shows an object of a solver. Below an Ingress are its Routes, which OpenShift creates.
func (e *examiner) addSolver(o object, values findings.Values) {
	ready, isReady := o.is("Ready")
	if o.Kind == "Pod" && !isReady {
		e.add(4, o, report.CheckWarning, "not ready", strings.Trim(o.Status.Phase+": "+ready.Message, ": "), ready.Since)
	} else {
		e.add(4, o, report.CheckOK, "present", "", time.Time{})
	}
	switch o.Kind {
	case "Pod":
		var names []string
		for _, p := range blocking(e.of("NetworkPolicy"), o) {
			names = append(names, p.Metadata.Name)
		}
		if len(names) > 0 {
			e.find(findings.New(findings.SolverPortBlocked,
				values.With("pod", o.Metadata.Name).With("policies", clean(strings.Join(names, ", ")))))
		}
	case "Ingress":
		routes := e.ownedBy(o, "Route")
		if len(routes) == 0 && e.hasRoutes {
			e.addMissing(5, "Route")
		}
		for _, r := range routes[:min(len(routes), maxSolver)] {
			outcome, state, admitted := report.CheckProblem, "not admitted", statusCondition{}
			if len(r.Status.Ingress) > 0 {
				r.Status.Conditions = r.Status.Ingress[0].Conditions
				admitted = r.condition("Admitted")
			}
			if admitted.Status == "True" {
				outcome, state = report.CheckOK, "admitted"
			}
			e.add(5, r, outcome, state, strings.Trim(admitted.Reason+": "+admitted.Message, ": "), admitted.Since)
		}
	}
}

// addNodes shows the nodes that hold an API VIP or have seen a Challenge, and adds why requests for it failed. It
// returns the end of a sentence about the requests. Without a Challenge, it shows the holders alone.
func (e *examiner) addNodes(depth int, challenge object) (seen string) {
	requests := 0
	for _, h := range e.hosts {
		all := seenBy(h, challenge)
		held := heldBy(h)
		if h.Problem != "" || len(held)+len(all) == 0 {
			continue
		}
		requests += len(all)
		outcome, texts := report.CheckOutcome(""), []string{}
		if len(held) > 0 {
			texts = append(texts, "holds "+strings.Join(held, ", "))
		}
		if challenge.Kind != "" {
			texts = append(texts, describe(all, e.now))
		}
		if len(all) > 0 {
			outcome = report.CheckOK
			for _, f := range verdict.Response(all[len(all)-1]) {
				outcome = report.CheckProblem
				p := verdict.Problem(f)
				p.Nodes, p.Commands = []string{h.Name}, check.Commands(h.Name, f.ID, f.Commands)
				e.addProblem(p)
			}
		}
		node := object{Kind: "Node", Metadata: metadata{Name: h.Name}}
		e.add(depth, node, outcome, string(h.Condition.Reason), strings.Join(texts, "; "), h.StateSince)
	}
	switch {
	case len(e.hosts) == 0:
		return ""
	case requests == 0:
		return ". The nodes report no request for it"
	}
	return fmt.Sprintf(". The nodes report %s for it", report.Count(requests, "request"))
}

func heldBy(h condition.HostReport) (all []string) {
	for _, v := range h.VIPs {
		if v.IsHeld() {
			all = append(all, v.Address.String())
		}
	}
	return all
}

// seenBy returns the requests of cert-manager and of CAs for a Challenge in the report of a host, oldest first.
func seenBy(h condition.HostReport, challenge object) (all []report.RecentChallenge) {
	recent := h.Challenges.Recent
	for _, c := range recent {
		if c.TokenPrefix != "" && strings.HasPrefix(challenge.Spec.Token, c.TokenPrefix) && c.IsValidation(recent) &&
			strings.EqualFold(c.Host, challenge.Spec.DNSName) {
			all = append(all, c)
		}
	}
	return all
}

// describe describes requests by the kind of the client.
func describe(all []report.RecentChallenge, now time.Time) string {
	if len(all) == 0 {
		return "no request for this challenge"
	}
	var texts []string
	byCA := false
	for _, kind := range report.ClientKinds() {
		count, last := 0, report.RecentChallenge{}
		for _, c := range all {
			if c.ClientKind == kind {
				count, last = count+1, c
			}
		}
		if count > 0 {
			byCA = byCA || kind != report.CertManager
			texts = append(texts, fmt.Sprintf("%s of %s, the last got %d %s ago", report.Count(count, "request"), kind,
				last.Status, report.Age(now.Sub(last.Time))))
		}
	}
	if !byCA {
		texts = append(texts, "none of a CA")
	}
	return strings.Join(texts, "; ")
}
