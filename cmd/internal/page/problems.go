// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// problems are the findings of a check and of the status, the most serious first. A
// finding of the status is left out if the check has found the same fault.
func (h Host) problems(now time.Time) parts {
	var all []report.ClusterProblem
	found := map[findings.ID]bool{}
	add := func(f findings.Finding) {
		all = append(all, section.Problem(f))
	}
	if h.Check != nil {
		for _, c := range h.Check.Checks {
			for _, f := range c.Findings {
				add(f)
				found[f.ID] = true
			}
		}
	}
	for _, f := range verdict.Problems(h.Status, asOf(h.Status, now)) {
		if f.ID == "" || !found[f.ID] {
			add(f)
		}
	}
	slices.SortStableFunc(all, func(a, b report.ClusterProblem) int { return cmp.Compare(a.Level, b.Level) })
	if len(all) == 0 && h.Error != "" {
		return nil
	}
	return parts{problemList(all)}
}

// problemList shows problems with their remediation.
func problemList(all []report.ClusterProblem) part {
	if len(all) == 0 {
		return el("p", mark(section.Good, "No problems in the status"))
	}
	list := el("ul", class("problems"))
	for _, p := range all {
		l := section.OfProblem(p.Level)
		head := el("p", class("problem-head"), mark(l, p.Level))
		if p.ID != "" {
			el("span", class("id"), text(p.ID)).addTo(&head)
		}
		if len(p.Nodes) > 0 {
			muted("on " + strings.Join(p.Nodes, ", ")).addTo(&head)
		}
		item := el("li", class(string(l)), head, el("p", text(p.Message)))
		if p.Remediation != "" {
			el("p", class("fix"), el("b", text("Fix: ")), text(p.Remediation)).addTo(&item)
		}
		for _, command := range p.Commands {
			el("pre", text(command)).addTo(&item)
		}
		item.addTo(&list)
	}
	return list
}
