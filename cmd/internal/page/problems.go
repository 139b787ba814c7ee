// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"regexp"
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
func (h Host) problems(now time.Time) []report.ClusterProblem {
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
	if h.Error == "" {
		for _, f := range verdict.Problems(h.Status, asOf(h.Status, now)) {
			if !found[f.ID] {
				add(f)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b report.ClusterProblem) int { return cmp.Compare(a.Level, b.Level) })
	return all
}

// problemCard has a card for each problem, with its remediation. It is empty without one: the
// verdict reports that there is none.
func problemCard(heading name, all []report.ClusterProblem, ids anchors) part {
	if len(all) == 0 {
		return parts{}
	}
	list := el("ul", class("problems"))
	shown := map[string]bool{}
	for _, p := range all {
		l := section.OfProblem(p.Level)
		head := el("p", class("problem-head"), mark(l, text(p.Level)))
		if p.ID != "" {
			el("span", class("id"), text(p.ID)).addTo(&head)
		}
		if len(p.Nodes) > 0 {
			muted("on " + strings.Join(p.Nodes, ", ")).addTo(&head)
		}
		item := el("li", class(string(l)), head, el("p", text(p.Message)))
		if id := ids[p.ID]; id != "" && !shown[p.ID] {
			attr("id", id).addTo(&item)
			shown[p.ID] = true
		}
		if p.Remediation != "" {
			el("p", class("fix"), el("b", text("Fix: ")), text(p.Remediation)).addTo(&item)
		}
		for _, command := range p.Commands {
			el("pre", attr("tabindex", "0"), attr("role", "region"), attr("aria-label", "Command"), text(command)).addTo(&item)
		}
		item.addTo(&list)
	}
	return card(heading, "Problems", list)
}

// anchors are the IDs of the elements with the cards of findings, by the ID of the finding.
type anchors map[string]string

// idForm is the grammar of the IDs of findings.
var idForm = regexp.MustCompile(`\[([a-z0-9-]+)\]`)

// anchorsOf returns the anchors of cards.
func anchorsOf(all []report.ClusterProblem) anchors {
	ids := anchors{}
	for _, p := range all {
		if name := "[" + p.ID + "]"; idForm.FindString(name) == name {
			ids[p.ID] = "problem-" + p.ID
		}
	}
	return ids
}

// link returns a text. The ID of a finding leads to its card, in brackets or as the whole text.
func (ids anchors) link(s string) part {
	if target := ids[s]; target != "" {
		return el("a", attr("href", "#"+target), text(s))
	}
	var all parts
	end := 0
	for _, m := range idForm.FindAllStringSubmatchIndex(s, -1) {
		if id := s[m[2]:m[3]]; ids[id] != "" {
			all = append(all, text(s[end:m[2]]), el("a", attr("href", "#"+ids[id]), text(id)))
			end = m[3]
		}
	}
	return append(all, text(s[end:]))
}

// worst returns the worst of a level and those of problems.
func worst(l section.Level, all []report.ClusterProblem) section.Level {
	for _, p := range all {
		if l != section.Bad {
			l = section.OfProblem(p.Level)
		}
	}
	return l
}

// count counts the problems and the warnings, as "1 problem and 2 warnings".
func count(all []report.ClusterProblem) string {
	warnings := 0
	for _, p := range all {
		if p.Level == report.LevelWarning {
			warnings++
		}
	}
	return report.CountFindings(len(all)-warnings, warnings)
}
