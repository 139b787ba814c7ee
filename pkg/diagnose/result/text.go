// SPDX-License-Identifier: Apache-2.0

package result

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/http01-proxyd/http01-proxyd/internal/docurl"
	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TextOptions is how a report is printed for a person.
type TextOptions struct {
	Colour bool
	Width  int  // of the terminal; 0: lines are not wrapped
	Wide   bool // with durations, and the documentation of findings
	Quiet  bool // findings only
}

// WriteText prints the report: a line for each check, with message and remediation of
// its findings, and a summary.
func (r Report) WriteText(w io.Writer, s TextOptions) error {
	p := printer{TextOptions: s}
	for _, c := range r.Checks {
		p.column = max(p.column, len(c.Name))
	}
	for _, c := range r.Checks {
		p.check(c)
	}
	if !s.Quiet {
		p.trace(r.Trace)
		if len(r.Checks) > 0 {
			p.text.WriteByte('\n')
		}
		p.column = -gutter // the whole width
		for _, line := range append([]string{r.Summary}, r.Advice...) {
			p.indented(line)
		}
	}
	_, err := io.WriteString(w, p.text.String())
	return err
}

// check prints the result of a check.
func (p *printer) check(c Result) {
	for _, f := range c.Findings {
		p.row(levelOutcome(f.Level), c.Name, fmt.Sprintf("[%s] %s", f.ID, f.Message))
		p.indented("fix: " + f.Remediation)
		for _, command := range f.Commands { // in one line, so that it can be copied
			fmt.Fprintf(&p.text, "%s%s\n", strings.Repeat(" ", p.column+gutter), printable.Line(command))
		}
		if p.Wide {
			p.indented("see: " + docurl.Troubleshooting + "#" + string(f.ID))
		}
	}
	if p.Quiet {
		return
	}
	if len(c.Findings) == 0 && (c.Text != "" || c.NotChecked == "") {
		text := c.Text
		if p.Wide {
			text = strings.TrimSpace(fmt.Sprintf("%s (%s)", text, duration(c.DurationMs)))
		}
		p.row(c.Outcome, c.Name, text)
	}
	if c.NotChecked != "" {
		p.row(Skipped, c.Name, "not checked: "+c.NotChecked)
	}
}

func duration(ms float64) string {
	return report.Milliseconds(time.Duration(ms * float64(time.Millisecond)))
}

// trace prints the trace of a challenge, a line for each step with its duration.
func (p *printer) trace(steps []Step) {
	if len(steps) == 0 {
		return
	}
	p.text.WriteString("\nThe challenge as a validator sees it:\n")
	column := p.column
	for _, s := range steps {
		p.column = max(p.column, utf8.RuneCountInString(s.Step))
	}
	for _, s := range steps {
		text := s.Text
		if s.To != "" {
			text = s.To + ": " + text
		}
		if s.DurationMs > 0 {
			text += fmt.Sprintf(" (%s)", duration(s.DurationMs))
		}
		p.row(s.Outcome, s.Step, text)
	}
	p.column = column
}

// gutter is the width beside a check's name: the symbol, a space, and two spaces after
// the name.
const gutter = 4

// printer prints rows in columns.
type printer struct {
	TextOptions
	column int // width of the names
	text   strings.Builder
}

func (p *printer) row(o Outcome, name, text string) {
	fmt.Fprintf(&p.text, "%s %-*s", symbol(o, p.Colour), p.column, name)
	text = printable.Line(text)
	if text == "" {
		p.text.WriteByte('\n')
		return
	}
	p.text.WriteString("  ")
	p.wrap(text)
}

// indented prints a text below that of the last row.
func (p *printer) indented(text string) {
	p.text.WriteString(strings.Repeat(" ", p.column+gutter))
	p.wrap(printable.Line(text))
}

// minTextWidth is the minimum width of the text column. On narrower terminals, lines
// are longer than the terminal.
const minTextWidth = 30

// wrap prints a text in the text column and wraps it between words. A word longer than
// a line stays whole, so that it can be copied.
func (p *printer) wrap(text string) {
	indent := p.column + gutter
	room := max(p.Width-indent, minTextWidth)
	if p.Width == 0 {
		room = len(text)
	}
	used := 0
	for i, word := range strings.Fields(text) {
		size := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case used+1+size > room:
			p.text.WriteByte('\n')
			p.text.WriteString(strings.Repeat(" ", indent))
			used = 0
		default:
			p.text.WriteByte(' ')
			used++
		}
		p.text.WriteString(word)
		used += size
	}
	p.text.WriteByte('\n')
}

func levelOutcome(l findings.Level) Outcome {
	if l == findings.Problem {
		return Problem
	}
	return Warning
}

func symbol(o Outcome, colour bool) string {
	sign, code := "-", "2"
	switch o {
	case OK:
		sign, code = "✓", "32"
	case Warning:
		sign, code = "!", "33"
	case Problem:
		sign, code = "✗", "31"
	case Skipped, NotApplicable:
	}
	if !colour {
		return sign
	}
	return "\x1b[" + code + "m" + sign + "\x1b[0m"
}
