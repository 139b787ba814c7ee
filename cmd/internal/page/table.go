// SPDX-License-Identifier: Apache-2.0

package page

import (
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
)

// table returns a table that scrolls. On a narrow screen, a table of texts has a paragraph for each
// row instead, with the titles of the columns in it. The caption is its accessible name. The first
// cell of each row is its header.
func table(t section.Table, ids anchors) element {
	kind := "texts"
	if !slices.ContainsFunc(t.Columns[1:], func(c section.Column) bool { return !c.Numeric }) {
		kind = "numbers"
	}
	head, body := el("tr"), el("tbody")
	for _, c := range t.Columns {
		el("th", attr("scope", "col"), align(c), text(c.Title)).addTo(&head)
	}
	for _, r := range t.Rows {
		line := el("tr")
		for i, c := range r {
			tag := el("td", attr("data-title", t.Columns[i].Title))
			if i == 0 {
				tag = el("th", attr("scope", "row"))
			}
			words := ids.link(c.Text)
			switch {
			case c.Marked:
				words = mark(c.Level, words)
			case c.Level != "":
				words = el("span", class("mark "+string(c.Level)), el("span", words)) // only coloured, as in the text
			}
			parts{align(t.Columns[i]), words, moment(c.Time)}.addTo(&tag)
			tag.addTo(&line)
		}
		line.addTo(&body)
	}
	return el("div", class("scroll "+kind), attr("role", "region"), attr("tabindex", "0"), attr("aria-label", t.Caption),
		el("table", el("caption", text(t.Caption)), el("thead", head), body))
}

func align(c section.Column) part {
	switch {
	case c.Numeric:
		return class("number")
	case c.MinWidth > 0:
		return class("prose")
	default:
		return parts{}
	}
}

// moment is the time below an age.
func moment(t time.Time) part {
	if t.IsZero() {
		return parts{}
	}
	return parts{el("br"), el("time", class("muted"), attr("datetime", t.UTC().Format(time.RFC3339)), text(clock(t)))}
}

// mark is the sign of a level with its text, or the text alone without a level.
func mark(l section.Level, words part) part {
	if l == "" {
		return words
	}
	sign := el("span", class("sign"), attr("aria-hidden", "true"), text(l.Sign()))
	return el("span", class("mark "+string(l)), sign, el("span", words))
}
