// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Report is the report as text: the state, the parts of the service that matter first, and the
// problems. A wide text has all details.
func Report(r report.Report, now time.Time) Text {
	return func(p *page) {
		state := section.HostState(r, now)
		p.writeState(state, now)
		if state.Condition.Message != "" && state.Condition.Status == "True" { // else it is a problem
			p.writeRow("Message", "", state.Condition.Message)
		}
		sections := section.Host(r, now)
		p.writeRows(sections)
		p.writeProblems(state.Problems, p.view.Wide)
		if p.view.Wide {
			p.writeTables(sections)
		}
	}
}

// ClusterStatus is the status of a cluster as text: the state, the holders of the
// VIPs, the nodes and the problems. A wide text has the messages of the nodes, and the last changes in
// their reports.
func ClusterStatus(s report.ClusterStatus, hosts map[string]report.Report) Text {
	return func(p *page) {
		state := section.ClusterState(s)
		p.writeState(state, s.Time)
		if s.Condition.Message != "" && len(s.Problems) == 0 { // else it repeats the problems
			p.writeRow("Message", "", s.Condition.Message)
		}
		p.writeRows([]section.Section{{Rows: section.Serving(hosts, s.Time)}})
		p.writeTables(section.Cluster(s, p.view.Wide))
		p.writeProblems(state.Problems, p.view.Wide)
		if changes := section.ClusterChanges(hosts); p.view.Wide && len(changes.Rows) > 0 {
			p.writeTable(changes)
		}
	}
}

// Watch is a status under a title, with the last challenges below it. Both share the height of the
// screen.
func Watch(title string, status Text, challenges section.Table) Text {
	return func(p *page) {
		p.writeWrapped(nil, 0, title)
		p.writeLine()
		status(p)
		below := page{view: p.view}
		if len(challenges.Rows) > 0 && !p.view.Wide { // a wide status has them
			below.writeTable(challenges)
		}
		lines := fitScreen(splitLines(p.text.String()), splitLines(below.text.String()), p.view.Height)
		p.text.Reset()
		p.text.WriteString(strings.Join(lines, "\n") + "\n")
	}
}

// Failed is a status that could not be queried again at a time, below the reason.
func Failed(err error, now time.Time, last Text) Text {
	return func(p *page) {
		const older = "failed at %s, the status below is older: %v"
		p.writeRow("Query", section.Bad, fmt.Sprintf(older, now.Format(time.TimeOnly), err))
		rest := page{view: p.view}
		if p.view.Height > 0 {
			rest.view.Height = max(1, p.view.Height-strings.Count(p.text.String(), "\n"))
		}
		last(&rest)
		p.text.WriteString(rest.text.String())
	}
}

func splitLines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// minBelow is the number of lines that the last challenges always have, with two of them: an empty
// line and the titles come first.
const minBelow = 4

// fitScreen joins the lines of a status and of what is below it. If there are more than the height of
// the screen, the status leaves out its last lines and counts them, and the oldest challenges are left out.
func fitScreen(top, below []string, height int) []string {
	if height > 0 {
		room := min(len(below), max(height-len(top), min(minBelow, height/2)))
		below = below[:room]
		if more := len(top) - (height - room) + 1; more > 1 {
			top = append(top[:len(top)-more:len(top)-more], fmt.Sprintf("… %d more lines", more))
		}
	}
	return slices.Concat(top, below)
}

// Preflight is the result of preflight as text: the findings, and what was not
// examined.
func Preflight(r report.Preflight) Text {
	return func(p *page) {
		p.writeRow("Result", section.OfOutcome(r.Outcome), r.Summary)
		label := "Examined"
		for _, what := range r.Examined {
			p.writeRow(label, "", what)
			label = ""
		}
		all := make([]report.ClusterProblem, len(r.Findings))
		for i, f := range r.Findings {
			all[i] = report.ClusterProblem{
				ID: f.ID, Level: f.Level, Message: f.Message, Remediation: f.Remediation, Commands: f.Commands,
			}
		}
		p.writeProblems(all, true)
		p.writeMissing("Not examined", r.NotExamined)
	}
}

// Certificate is a certificate of the API as text: the next renewal, the tree of the objects, and the problems.
func Certificate(c report.ClusterCertificate) Text {
	return func(p *page) {
		p.writeRow("Result", section.OfOutcome(c.Outcome), c.Summary)
		p.writeRow("Name", "", c.Name)
		for _, r := range c.Renewals {
			due := "in " + report.Age(r.Time.Sub(c.Time))
			if !r.Time.After(c.Time) {
				due = "overdue for " + report.Age(c.Time.Sub(r.Time))
			}
			p.writeRow("Next renewal", "", fmt.Sprintf("%s: %s, %s; challenge %s: %s", r.Certificate,
				r.Time.UTC().Format("2006-01-02 15:04 MST"), due, r.Challenge, r.Reason))
		}
		p.writeLine()
		namespace := ""
		for _, o := range c.Objects {
			name := o.Name
			if o.Depth == 0 || o.Namespace != namespace {
				name = strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
			}
			if o.Depth == 0 {
				namespace = o.Namespace
			}
			text := fmt.Sprintf("%s %s: %s", o.Kind, name, o.State)
			if !o.Since.IsZero() {
				text += ", " + report.Age(c.Time.Sub(o.Since))
			}
			if o.Reason != "" {
				text += ": " + o.Reason
			}
			indent := 2 * o.Depth
			head := []span{{text: pad("", indent)}, mark(section.OfOutcome(o.Outcome)), {text: " "}}
			p.writeWrapped(head, indent+2, text)
		}
		p.writeProblems(c.Findings, true)
		p.writeMissing("Not examined", c.NotExamined)
	}
}

func (p *page) writeState(s section.State, now time.Time) {
	text := s.Headline
	if !s.Since.IsZero() {
		separator := " for "
		if strings.Contains(text, ",") {
			separator = ", for "
		}
		text += separator + report.Age(now.Sub(s.Since))
	}
	if p.view.Wide {
		text += fmt.Sprintf(" (%s=%s)", s.Condition.Type, s.Condition.Status)
	}
	p.writeStyledRow("State", s.Level, span{text, bold})
}

// writeRows writes the rows of sections. Only a wide text has those with details, and the whole texts.
func (p *page) writeRows(all []section.Section) {
	for _, s := range all {
		for _, r := range s.Rows {
			switch {
			case !p.view.Wide && !r.IsShown():
			case r.Label == "":
				for line := range strings.SplitSeq(strings.TrimSuffix(r.Text, "\n"), "\n") {
					p.writeRow("", r.Level, line)
				}
			case p.view.Wide:
				p.writeRow(r.Label, r.Level, r.Text)
			default:
				p.writeRow(r.Label, r.Level, cmp.Or(r.Short, r.Text))
			}
		}
	}
}

func (p *page) writeTables(all []section.Section) {
	for _, s := range all {
		for _, t := range s.Tables {
			p.writeTable(t)
		}
	}
}

// writeProblems writes problems, each with its ID. A short text has one command for each, and a whole one
// the remediation with all commands.
func (p *page) writeProblems(problems []report.ClusterProblem, whole bool) {
	for i, problem := range problems {
		if whole || i == 0 {
			p.writeLine()
		}
		text := fmt.Sprintf("[%s] %s", problem.ID, problem.Message)
		if slices.ContainsFunc(problem.Nodes, func(n string) bool { return !strings.Contains(problem.Message, n) }) {
			text += fmt.Sprintf(" (%s)", strings.Join(problem.Nodes, ", "))
		}
		label := "Problem"
		if problem.Level == report.LevelWarning {
			label = "Warning"
		}
		p.writeRow(label, section.OfProblem(problem.Level), text)
		if whole {
			p.writeRow("Fix", "", problem.Remediation)
			p.writeCommands("  ", problem.Commands)
		} else {
			p.writeCommands("  ", []string{section.Command(problem)})
		}
	}
}

// writeCommands writes each command in one line, so that it can be copied.
func (p *page) writeCommands(prefix string, commands []string) {
	for _, command := range commands {
		p.text.WriteString(prefix + printable.Line(command) + "\n")
	}
}

// writeMissing writes what a result does not contain, after an empty line.
func (p *page) writeMissing(label string, all []string) {
	if len(all) > 0 {
		p.writeLine()
	}
	for _, what := range all {
		p.writeRow(label, section.Neutral, what)
	}
}
