// SPDX-License-Identifier: Apache-2.0

package page

import (
	"regexp"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// problemCard has a card for each problem, with its remediation. It is empty without one: the
// verdict reports that there is none.
func problemCard(all []report.ClusterProblem, ids anchors) part {
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
	return card("h2", "Problems", list)
}

// anchors are the IDs of the elements with the cards of findings, by the ID of the finding.
type anchors map[string]string

// reference matches the ID of a finding in a text.
var reference = regexp.MustCompile(`\[([a-z0-9-]+)\]`)

// anchorsOf returns the anchors of cards.
func anchorsOf(all []report.ClusterProblem) anchors {
	ids := anchors{}
	for _, p := range all {
		if p.ID != "" {
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
	for _, m := range reference.FindAllStringSubmatchIndex(s, -1) {
		if id := s[m[2]:m[3]]; ids[id] != "" {
			all = append(all, text(s[end:m[2]]), el("a", attr("href", "#"+ids[id]), text(id)))
			end = m[3]
		}
	}
	return append(all, text(s[end:]))
}
