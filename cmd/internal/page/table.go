// SPDX-License-Identifier: Apache-2.0

package page

import (
	"strconv"
	"strings"
)

// column is a column of a table.
type column struct {
	title   string
	numeric bool
	prose   bool // sentences, which need some width
}

// row is the cells of a row, one for each column.
type row []part

// table returns a table that scrolls on a narrow screen. The caption is its accessible
// name. The first cell of each row is its header.
func table(caption string, columns []column, rows []row) element {
	head := el("tr")
	for _, c := range columns {
		el("th", attr("scope", "col"), c.align(), text(c.title)).addTo(&head)
	}
	body := el("tbody")
	for _, r := range rows {
		line := el("tr")
		for i, cell := range r {
			if i == 0 {
				el("th", attr("scope", "row"), columns[i].align(), cell).addTo(&line)
			} else {
				el("td", columns[i].align(), cell).addTo(&line)
			}
		}
		line.addTo(&body)
	}
	return el("div", class("scroll"), attr("role", "region"), attr("tabindex", "0"), attr("aria-label", caption),
		el("table", el("caption", text(caption)), el("thead", head), body))
}

func (c column) align() part {
	switch {
	case c.numeric:
		return class("number")
	case c.prose:
		return class("prose")
	default:
		return parts{}
	}
}

// number is a count with separators.
func number(n uint64) text {
	digits := strconv.FormatUint(n, 10)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return text(b.String())
}

// code is text in a monospaced font.
func code(s string) element { return el("span", class("code"), text(s)) }

// quoted is text that has code between backticks.
func quoted(s string) part {
	all := parts{}
	for i, piece := range strings.Split(s, "`") {
		if i%2 == 1 {
			all = append(all, code(piece))
		} else {
			all = append(all, text(piece))
		}
	}
	return all
}

// muted is text of less importance.
func muted(s string) element { return el("span", class("muted"), text(s)) }

// term is a label with its value.
func term(label string, value ...part) element {
	return el("div", el("dt", text(label)), el("dd", value...))
}

// stacked is a value with another one below it.
func stacked(upper, lower part) parts { return parts{upper, el("br"), lower} }
