// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
)

// View is the output device of a text. The zero value is a file.
type View struct {
	Colour bool // use colours besides the marks
	Width  int  // of the terminal: rows are wrapped, table cells are truncated; 0: unlimited
}

// style is the SGR parameters of a text; empty for plain text.
type style string

// The styles. A colour never contains information that the text does not.
const (
	plain  style = ""
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// span is text in one style.
type span struct {
	text  string
	style style
}

// page collects lines. Every line is written by writeLine, which replaces characters
// that are not printable, except constant texts of the program (writeBlock).
type page struct {
	view View
	text strings.Builder
}

const (
	labelWidth = 16
	gap        = 2 // between the columns of a table
	ellipsis   = "…"
)

// writeLine writes a line of spans, truncated to the width.
func (p *page) writeLine(spans ...span) {
	room := p.view.Width
	for _, s := range spans {
		text := printable.Line(s.text)
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
}

// writeBlock writes the lines of a constant text without truncation, so that they can be
// copied. An empty text has no label.
func (p *page) writeBlock(label, text string) {
	if text == "" {
		return
	}
	p.writeLine(span{text: label + ":"})
	for line := range strings.Lines(text) {
		p.text.WriteString("  " + strings.TrimSuffix(line, "\n") + "\n")
	}
}

// writeRow writes "label: mark text", wrapped to the width. The following lines are
// indented to the beginning of the text.
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
	for i, line := range wrap(printable.Line(text), p.view.Width-indent) {
		if i == 0 {
			p.writeLine(head, mark, span{text: behind + line})
		} else {
			p.writeLine(span{text: strings.Repeat(" ", indent) + line})
		}
	}
}

// column is a column of a table.
type column struct {
	title        string
	minWidth     int  // it may be truncated to this width; 0: never
	rightAligned bool // numbers
	optional     bool // it may be omitted
}

// writeTable writes an empty line, titles and rows. If the table is too wide, columns
// are narrowed, the widest first. If that is not enough, optional columns are omitted,
// the last first.
func (p *page) writeTable(columns []column, rows [][]span) {
	titles := make([]span, len(columns))
	for i, c := range columns {
		titles[i] = span{c.title, faint}
	}
	rows = append([][]span{titles}, rows...)
	widths := make([]int, len(columns))
	for i := range columns {
		for _, r := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(printable.Line(r[i].text)))
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

// alignCells pads the cells of a row to their widths. The last cell is not padded, so
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
		text := truncateWidth(printable.Line(s.text), widths[i])
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

// fitColumns narrows columns until the table has the width. It reports whether that is
// possible.
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

// truncateWidth truncates s to the width and marks the end.
func truncateWidth(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	if width <= 0 {
		return ""
	}
	return string([]rune(s)[:width-1]) + ellipsis
}

// minWrapWidth is the minimal width of wrapped text.
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
		if at == 0 { // a word that is longer than the line
			at = width
		}
		lines = append(lines, strings.TrimRight(string(rest[:at]), " "))
		rest = []rune(strings.TrimLeft(string(rest[at:]), " "))
	}
	return append(lines, string(rest))
}

// writeTo writes the page in one call.
func (p *page) writeTo(w io.Writer) error {
	_, err := io.WriteString(w, p.text.String())
	return err
}
