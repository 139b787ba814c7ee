// SPDX-License-Identifier: Apache-2.0

package report

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// View is what a text is written for. The zero value is a file.
type View struct {
	Colour bool // what matters has a colour, besides its words
	Width  int  // of the terminal: longer lines are wrapped, those of tables cut; 0: lines of any length
	Height int  // of the terminal, where all has to be in sight: what matters less is left out; 0: any number of lines
}

// style is how a terminal shows a text: SGR parameters, empty for plain.
type style string

// All that there are: a colour never says what the text does not.
const (
	plain  style = ""
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// span is text in one ink.
type span struct {
	text  string
	style style
}

// page collects lines. Whatever is printed goes through put, which lets no text
// pass that is not clean.
type page struct {
	view      View
	text      strings.Builder
	lineCount int // lines
}

const (
	labelWidth = 16
	gap        = 2 // between a table's columns
	ellipsis   = "…"
)

// writeLine ends a line that consists of the spans, cut to the width.
func (p *page) writeLine(spans ...span) {
	room := p.view.Width
	for _, s := range spans {
		text := OneLine(s.text)
		if p.view.Width > 0 {
			text = truncateWidth(text, room)
			room -= utf8.RuneCountInString(text)
		}
		if p.view.Colour && s.style != plain && text != "" {
			text = "\x1b[" + string(s.style) + "m" + text + "\x1b[0m"
		}
		p.text.WriteString(text)
	}
	p.text.WriteByte('\n')
	p.lineCount++
}

// writeRow is a line of the kind "label: text", wrapped to the width. mark, with the
// space behind it, stands before the text, which hangs on it. Lines of one
// subject have one label.
func (p *page) writeRow(label string, mark span, text string) {
	if label != "" {
		label += ":"
	}
	head := span{text: pad(label, labelWidth)}
	indent := labelWidth
	behind := ""
	if mark.text != "" {
		behind = " "
		indent += utf8.RuneCountInString(mark.text + behind)
	}
	for i, line := range wrap(OneLine(text), p.view.Width-indent) {
		if i == 0 {
			p.writeLine(head, mark, span{text: behind + line})
		} else {
			p.writeLine(span{text: strings.Repeat(" ", indent) + line})
		}
	}
}

// column of a table.
type column struct {
	title        string
	minWidth     int  // it may be cut to this width; 0: never
	rightAligned bool // numbers
	optional     bool // it may be left out
}

// writeTable prints rows below titles, after an empty line. Where they are too wide
// together, columns are narrowed, the widest first, and where that is not enough,
// left out, the last first.
func (p *page) writeTable(columns []column, rows [][]span) {
	titles := make([]span, len(columns))
	for i, c := range columns {
		titles[i] = span{c.title, faint}
	}
	rows = append([][]span{titles}, rows...)
	widths := make([]int, len(columns))
	for i := range columns {
		for _, r := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(OneLine(r[i].text)))
		}
	}
	left := columns
	if p.view.Width > 0 {
		for i := len(columns) - 1; i >= 0 && !fitColumns(slices.Clone(widths), left, p.view.Width); i-- {
			if !columns[i].optional {
				continue
			}
			left, widths = slices.Concat(left[:i], left[i+1:]), slices.Delete(widths, i, i+1)
			for n, r := range rows {
				rows[n] = slices.Delete(r, i, i+1)
			}
		}
		fitColumns(widths, left, p.view.Width)
	}
	p.writeLine()
	for _, r := range rows {
		p.writeLine(alignCells(left, widths, r)...)
	}
}

// alignCells gives the cells of a row their widths. The last one is not padded, so
// that no line ends with spaces.
func alignCells(columns []column, widths []int, row []span) []span {
	last := 0
	for i, s := range row {
		if s.text != "" {
			last = i
		}
	}
	line := make([]span, 0, 2*len(row))
	for i, s := range row[:last+1] {
		text := truncateWidth(OneLine(s.text), widths[i])
		space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
		between := strings.Repeat(" ", gap)
		if i == last {
			between = ""
		}
		switch {
		case columns[i].rightAligned:
			line = append(line, span{text: space}, span{text, s.style}, span{text: between})
		case i == last:
			line = append(line, span{text, s.style})
		default:
			line = append(line, span{text, s.style}, span{text: space + between})
		}
	}
	return line
}

// fitColumns narrows columns until all of them together have the width, and reports
// whether that goes.
func fitColumns(widths []int, columns []column, width int) bool {
	sum := gap * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	for ; sum > width; sum-- {
		widest := -1
		for i, c := range columns {
			if c.minWidth > 0 && widths[i] > c.minWidth && (widest < 0 || widths[i] >= widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		widths[widest]--
	}
	return true
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

// truncateWidth shortens s to the width, with a mark.
func truncateWidth(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	if width <= 0 {
		return ""
	}
	return string([]rune(s)[:width-1]) + ellipsis
}

// minWrapWidth is the width below which wrapping would only make a mess.
const minWrapWidth = 20

// wrap breaks s into lines at spaces.
func wrap(s string, width int) []string {
	if width < minWrapWidth {
		return []string{s}
	}
	var lines []string
	rest := []rune(s)
	for len(rest) > width {
		at := width
		for at > 0 && rest[at] != ' ' {
			at--
		}
		if at == 0 { // a word longer than the line
			at = width
		}
		lines = append(lines, strings.TrimRight(string(rest[:at]), " "))
		rest = []rune(strings.TrimLeft(string(rest[at:]), " "))
	}
	return append(lines, string(rest))
}

// writeTo hands the page over in one piece, so that it appears at once.
func (p *page) writeTo(w io.Writer) error {
	_, err := io.WriteString(w, p.text.String())
	return err
}
