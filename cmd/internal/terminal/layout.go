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
	Width  int  // of the terminal: rows and table cells are wrapped; 0: unlimited
	Height int  // of the screen; 0: unlimited
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

	narrow       = 60 // columns; a narrower text has no space for a column of labels
	narrowIndent = 2
)

// writeLine writes a line of spans, truncated to the width unless the rest is a URL.
func (p *page) writeLine(spans ...span) {
	room := p.view.Width
	for _, s := range spans {
		text := printable.Line(s.text)
		if p.view.Width > 0 && !isURL(text) {
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
// indented to the beginning of the text, or a little on a narrow terminal.
func (p *page) writeRow(label string, level section.Level, text string) {
	p.writeStyledRow(label, level, span{text: text})
}

func (p *page) writeStyledRow(label string, level section.Level, text span) {
	if label != "" {
		label += ":"
	}
	indent := labelWidth
	if level != "" {
		indent += 2
	}
	head := []span{{text: pad(label, labelWidth)}}
	if p.view.Width > 0 && p.view.Width < narrow {
		indent = narrowIndent
		if head[0].text = label + " "; label == "" {
			head[0].text = pad("", indent)
		}
	}
	if level != "" {
		head = append(head, mark(level), span{text: " "})
	}
	p.writeStyled(head, indent, text)
}

// writeWrapped writes a text behind the head of its first line. The others are indented.
func (p *page) writeWrapped(head []span, indent int, text string) {
	p.writeStyled(head, indent, span{text: text})
}

func (p *page) writeStyled(head []span, indent int, text span) {
	first, rest := 0, 0
	if p.view.Width > 0 {
		rest = max(1, p.view.Width-indent)
		first = max(1, p.view.Width-spanWidth(head))
	}
	for _, line := range wrapAfter(printable.Line(text.text), first, rest) {
		p.writeLine(append(head, span{line, text.style})...)
		head = []span{{text: strings.Repeat(" ", indent)}}
	}
}

func spanWidth(spans []span) (width int) {
	for _, s := range spans {
		width += utf8.RuneCountInString(s.text)
	}
	return width
}

// writeTable writes an empty line, titles and rows, without empty columns. If the table is too wide for the words in
// its cells, optional columns are omitted, the last first. Then cells are wrapped, the widest
// column first. If that is not enough, each row is written as labels and texts.
func (p *page) writeTable(t section.Table) {
	rows := make([][]span, 1, 1+len(t.Rows))
	for _, c := range t.Columns {
		rows[0] = append(rows[0], span{heading(c.Title), faint})
	}
	for _, cells := range t.Rows {
		row := make([]span, len(cells))
		for i, c := range cells {
			row[i] = span{printable.Line(c.Text), mark(c.Level).style}
			if c.Marked {
				row[i].text = mark(c.Level).text + " " + row[i].text
			}
		}
		rows = append(rows, row)
	}
	columns := slices.Clone(t.Columns)
	for i := len(columns) - 1; i >= 0; i-- {
		empty := len(rows) > 1 && !slices.ContainsFunc(rows[1:], func(r []span) bool { return r[i].text != "" })
		if empty || columns[i].Optional && !p.hasRoom(columns, rows) {
			columns = slices.Delete(columns, i, i+1)
			for n, r := range rows {
				rows[n] = slices.Delete(r, i, i+1)
			}
		}
	}
	p.writeLine()
	if !p.hasRoom(columns, rows) {
		p.writeRecords(columns, rows[1:])
		return
	}
	widths := p.columnWidths(columns, rows)
	for _, r := range rows {
		p.writeCells(columns, widths, r)
	}
}

// hasRoom reports whether no word of a table must be broken.
func (p *page) hasRoom(columns []section.Column, rows [][]span) bool {
	sum := gap * (len(columns) - 1)
	for i, c := range columns {
		least, _ := bounds(c, rows, i)
		sum += least
	}
	return p.view.Width == 0 || sum <= p.view.Width
}

// bounds are the width below which a column would break a word, and the width of its longest cell. A column without a
// minimal width is not wrapped.
func bounds(c section.Column, rows [][]span, i int) (least, natural int) {
	least = c.MinWidth
	for _, r := range rows {
		natural = max(natural, utf8.RuneCountInString(r[i].text))
		for w := range strings.SplitSeq(r[i].text, " ") {
			least = max(least, utf8.RuneCountInString(w))
		}
	}
	if c.MinWidth == 0 {
		return natural, natural
	}
	return min(natural, least), natural
}

// columnWidths narrows the widest columns until the table has the width.
func (p *page) columnWidths(columns []section.Column, rows [][]span) []int {
	widths, least := make([]int, len(columns)), make([]int, len(columns))
	sum := gap * (len(columns) - 1)
	for i, c := range columns {
		least[i], widths[i] = bounds(c, rows, i)
		sum += widths[i]
	}
	for ; p.view.Width > 0 && sum > p.view.Width; sum-- {
		widest := -1
		for i, w := range widths {
			if w > least[i] && (widest < 0 || w >= widths[widest]) {
				widest = i
			}
		}
		widths[widest]--
	}
	return widths
}

// writeCells writes a row of a table, in as many lines as its longest cell needs. No line ends with
// spaces.
func (p *page) writeCells(columns []section.Column, widths []int, row []span) {
	cells, height := make([][]string, len(row)), 1
	for i, c := range row {
		cells[i] = wrap(c.text, widths[i])
		height = max(height, len(cells[i]))
	}
	for n := range height {
		var line []span
		space := 0
		for i, c := range row {
			text := ""
			if n < len(cells[i]) {
				text = cells[i][n]
			}
			empty := widths[i] - utf8.RuneCountInString(text)
			if text == "" {
				space += widths[i] + gap
				continue
			}
			if columns[i].Numeric {
				space, empty = space+empty, 0
			}
			line = append(line, span{text: pad("", space)}, span{text, c.style})
			space = empty + gap
		}
		p.writeLine(line...)
	}
}

// writeRecords writes each row of a table as labels and texts.
func (p *page) writeRecords(columns []section.Column, rows [][]span) {
	for n, r := range rows {
		if n > 0 {
			p.writeLine()
		}
		for i, c := range columns {
			if r[i].text != "" {
				p.writeStyledRow(c.Title, "", r[i])
			}
		}
	}
}

// heading is a title in capitals, unless it is a name in lower case.
func heading(title string) string {
	if strings.ToLower(title) == title {
		return title
	}
	return strings.ToUpper(title)
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

// wrap breaks s into lines at spaces. A width below 1 is unlimited.
func wrap(s string, width int) []string { return wrapAfter(s, width, width) }

// wrapAfter breaks s into lines, of which the first has another width. Only a word that is longer than
// a line is broken. A URL is not, so that it can be copied.
func wrapAfter(s string, first, width int) []string {
	if width < 1 {
		return []string{s}
	}
	var lines []string
	rest := []rune(s)
	for room := first; len(rest) > room; room = width {
		at := room
		for at > 0 && rest[at] != ' ' {
			at--
		}
		if at == 0 && (room == width || wordLength(rest) > width) { // longer than a line
			at = room
			if isURL(string(rest[:wordLength(rest)])) {
				at = wordLength(rest)
			}
		}
		lines = append(lines, strings.TrimRight(string(rest[:at]), " "))
		rest = []rune(strings.TrimLeft(string(rest[at:]), " "))
	}
	if len(rest) == 0 && len(lines) > 0 {
		return lines
	}
	return append(lines, string(rest))
}

// isURL reports whether a text is nothing but a URL.
func isURL(text string) bool {
	return strings.HasPrefix(text, "https://") && !strings.Contains(text, " ")
}

func wordLength(text []rune) int {
	if i := slices.Index(text, ' '); i >= 0 {
		return i
	}
	return len(text)
}
