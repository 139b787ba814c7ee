// SPDX-License-Identifier: Apache-2.0

package page

import (
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
)

// table returns a table that scrolls on a narrow screen. The caption is its accessible
// name. The first cell of each row is its header.
func table(t section.Table) element {
	head, body := el("tr"), el("tbody")
	for _, c := range t.Columns {
		el("th", attr("scope", "col"), align(c), text(c.Title)).addTo(&head)
	}
	for _, r := range t.Rows {
		line := el("tr")
		for i, c := range r {
			tag := el("td")
			if i == 0 {
				tag = el("th", attr("scope", "row"))
			}
			parts{align(t.Columns[i]), mark(c.Level, c.Text), moment(c.Time)}.addTo(&tag)
			tag.addTo(&line)
		}
		line.addTo(&body)
	}
	return el("div", class("scroll"), attr("role", "region"), attr("tabindex", "0"), attr("aria-label", t.Caption),
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

// icon is the drawing of a level. The text beside it has the same meaning.
func icon(l section.Level) element {
	outline, sign := "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1Z", "M5 8h6"
	switch l {
	case section.Good:
		sign = "M4.9 8.3l2.1 2.1 4.2-4.6"
	case section.Warning:
		outline, sign = "M8 1.6 15.2 14.4H.8Z", "M8 6.2v3.8m0 2v.1"
	case section.Bad:
		outline, sign = "M5.1 1h5.8L15 5.1v5.8L10.9 15H5.1L1 10.9V5.1Z", "M5.6 5.6l4.8 4.8m0-4.8-4.8 4.8"
	case section.Neutral, "":
	}
	return el("svg", class("icon"), attr("viewBox", "0 0 16 16"), attr("aria-hidden", "true"),
		el("path", class("shape"), attr("d", outline)), el("path", class("sign"), attr("d", sign)))
}

// mark is the icon of a level with its text, or the text alone without a level.
func mark(l section.Level, words string) part {
	if l == "" {
		return text(words)
	}
	return el("span", class("mark "+string(l)), icon(l), el("span", text(words)))
}
