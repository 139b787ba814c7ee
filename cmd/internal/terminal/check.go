// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// minCheckWidth is the width below which only the terminal wraps the text of a check.
const minCheckWidth = 40

// Check is the result of a check as text: a line for each check, with message and
// remediation of its findings, the steps of a challenge, and a summary. A quiet text has
// the findings only, and a wide one also durations and documentation.
func Check(r result.Report, quiet bool) Text {
	return func(p *page) {
		if p.view.Width < minCheckWidth {
			p.view.Width = 0
		}
		column := 0
		for _, c := range r.Checks {
			column = max(column, len(c.Name))
		}
		for _, c := range r.Checks {
			p.writeCheck(c, column, quiet)
		}
		if quiet {
			return
		}
		p.writeChallenge(r.Trace, column)
		if len(r.Checks) > 0 {
			p.writeLine()
		}
		p.writeWrapped([]span{mark(section.OfOutcome(r.Outcome)), {text: " "}}, 2, r.Summary)
		for _, line := range r.Advice {
			p.writeWrapped(nil, 0, line)
		}
	}
}

// ClusterCheck is the result of a check on all nodes as text: the nodes, the findings, and what was
// not checked. A wide text has the result of each check on each node.
func ClusterCheck(c report.ClusterCheck) Text {
	return func(p *page) {
		nodes, checks := section.ClusterCheck(c)
		var notChecked []string
		for _, n := range c.Nodes {
			for _, reason := range n.NotChecked {
				notChecked = append(notChecked, n.Name+": "+reason)
			}
		}
		p.writeRow("Result", section.OfOutcome(c.Outcome), c.Summary)
		p.writeTable(nodes)
		if p.view.Wide {
			p.writeTable(checks)
		}
		p.writeProblems(c.Findings, true)
		p.writeMissing("Not checked", append(notChecked, c.NotExamined...))
	}
}

func (p *page) writeCheck(c result.Result, column int, quiet bool) {
	below := strings.Repeat(" ", column+checkGutter)
	for _, f := range c.Findings {
		p.writeResult(report.CheckOutcome(f.Level), c.Name, column, fmt.Sprintf("[%s] %s", f.ID, f.Message))
		p.writeWrapped([]span{{text: below}}, len(below), "fix: "+f.Remediation)
		p.writeCommands(below, f.Commands)
		if p.view.Wide {
			p.writeLine(span{text: below + "see: " + f.ID.URL()})
		}
	}
	if quiet {
		return
	}
	if len(c.Findings) == 0 && (c.Text != "" || c.NotChecked == "") {
		text := c.Text
		if p.view.Wide {
			text = strings.TrimSpace(fmt.Sprintf("%s (%s)", text, milliseconds(c.DurationMs)))
		}
		p.writeResult(c.Outcome, c.Name, column, text)
	}
	if c.NotChecked != "" {
		p.writeResult("", c.Name, column, "not checked: "+c.NotChecked)
	}
}

// writeChallenge writes a line for each step of a challenge.
func (p *page) writeChallenge(steps []result.Step, column int) {
	if len(steps) == 0 {
		return
	}
	p.writeLine()
	p.writeLine(span{text: "The challenge as a validator sees it:"})
	for _, s := range steps {
		column = max(column, utf8.RuneCountInString(s.Step))
	}
	for _, s := range steps {
		text := s.Text
		if s.To != "" {
			text = s.To + ": " + text
		}
		if s.DurationMs > 0 {
			text += fmt.Sprintf(" (%s)", milliseconds(s.DurationMs))
		}
		p.writeResult(s.Outcome, s.Step, column, text)
	}
}

// checkGutter is the width beside a name: the mark, a space, and two spaces after the name.
const checkGutter = 4

func (p *page) writeResult(outcome report.CheckOutcome, name string, column int, text string) {
	head := []span{mark(section.OfOutcome(outcome)), {text: " " + pad(name, column) + "  "}}
	p.writeWrapped(head, column+checkGutter, text)
}

func milliseconds(ms float64) string {
	return report.Milliseconds(time.Duration(ms * float64(time.Millisecond)))
}
