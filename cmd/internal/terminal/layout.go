// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
	"github.com/http01-proxyd/http01-proxyd/internal/printable"
)

// View is the output device of a text. The zero value is a file.
type View struct {
	Colour bool // use colours besides the marks
	Width  int  // of the terminal: rows are wrapped, table cells are truncated; 0: unlimited
	Wide   bool // with all details
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

// mark is the mark of a level with its colour; the zero value without a level.
func mark(l section.Level) span {
	styles := map[section.Level]style{
		section.Good: green, section.Warning: yellow, section.Bad: red, section.Neutral: faint,
	}
	return span{l.Sign(), styles[l]}
}

// span is text in one style.
type span struct {
	text  string
	style style
}

// Text is what a command prints.
type Text func(*page)

// Write writes the text in one call.
func (t Text) Write(w io.Writer, view View) error {
	p := &page{view: view}
	t(p)
	_, err := io.WriteString(w, p.text.String())
	return err
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
func (p *page) writeRow(label string, level section.Level, text string) {
	if label != "" {
		label += ":"
	}
	head := []span{{text: pad(label, labelWidth)}}
	indent := labelWidth
	if level != "" {
		head = append(head, mark(level), span{text: " "})
		indent += 2
	}
	p.writeWrapped(head, indent, text)
}

// writeWrapped writes a text behind the head of its first line. The others are indented.
func (p *page) writeWrapped(head []span, indent int, text string) {
	for _, line := range wrap(printable.Line(text), p.view.Width-indent) {
		p.writeLine(append(head, span{text: line})...)
		head = []span{{text: strings.Repeat(" ", indent)}}
	}
}

// writeTable writes an empty line, titles and rows. If the table is too wide, columns
// are narrowed, the widest first. If that is not enough, optional columns are omitted,
// the last first.
func (p *page) writeTable(t section.Table) {
	columns := t.Columns
	rows := make([][]span, 1, 1+len(t.Rows))
	for _, c := range columns {
		rows[0] = append(rows[0], span{heading(c.Title), faint})
	}
	for _, cells := range t.Rows {
		row := make([]span, len(cells))
		for i, c := range cells {
			row[i] = span{c.Text, mark(c.Level).style}
			if c.Marked {
				row[i].text = mark(c.Level).text + " " + c.Text
			}
		}
		rows = append(rows, row)
	}
	widths := make([]int, len(columns))
	for i := range columns {
		for _, r := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(printable.Line(r[i].text)))
		}
	}
	left := columns
	if p.view.Width > 0 {
		for i := len(columns) - 1; i >= 0 && !fitColumns(slices.Clone(widths), left, p.view.Width); i-- {
			if !columns[i].Optional {
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

// heading is a title in capitals, unless it is a name in lower case.
func heading(title string) string {
	if strings.ToLower(title) == title {
		return title
	}
	return strings.ToUpper(title)
}

// alignCells pads the cells of a row to their widths. The last cell is not padded, so
// that no line ends with spaces.
func alignCells(columns []section.Column, widths []int, row []span) []span {
	last := 0
	for i, s := range row {
		if s.text != "" {
			last = i
		}
	}
	line := make([]span, 0, 2*len(row))
	for i, s := range row[:last+1] {
		text := truncateWidth(printable.Line(s.text), widths[i])
		space := pad("", widths[i]-utf8.RuneCountInString(text))
		between := strings.Repeat(" ", gap)
		if i == last {
			between = ""
		}
		switch {
		case columns[i].Numeric:
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
func fitColumns(widths []int, columns []section.Column, width int) bool {
	sum := gap * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	for ; sum > width; sum-- {
		widest := -1
		for i, c := range columns {
			if c.MinWidth > 0 && widths[i] > c.MinWidth && (widest < 0 || widths[i] >= widths[widest]) {
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

// maxPad bounds the spaces after a text: one long text of a hostile host would make a long line of each.
const maxPad = 250

func pad(s string, width int) string {
	return s + strings.Repeat(" ", min(maxPad, max(0, width-utf8.RuneCountInString(s))))
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
