// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Report is the report as text: the state, the counters, and the last
// challenges, newest first.
func Report(r report.Report, now time.Time) Text {
	return func(p *page) {
		p.writeState(r.Condition(), now)
		p.writeSections(section.Host(r, now))
	}
}

// ClusterStatus is the status of a cluster as text: the state, the holders of the
// VIPs, the nodes and the problems. A wide text has the messages of the nodes.
func ClusterStatus(s report.ClusterStatus) Text {
	return func(p *page) {
		p.writeState(s.Condition, s.Time)
		p.writeSections(section.Cluster(s, p.view.Wide))
		p.writeProblems(s.Problems)
	}
}

// ClusterCheck is the result of a check on all nodes as text: the nodes, the
// findings, and what was not checked.
func ClusterCheck(c report.ClusterCheck) Text {
	return func(p *page) {
		nodes := section.Table{Columns: []section.Column{
			{Title: "Node", MinWidth: 12}, {Title: "Result"}, {Title: "Summary", MinWidth: 20},
		}}
		var notChecked []string
		for _, n := range c.Nodes {
			result := section.Cell{Text: n.Outcome, Level: section.OfOutcome(n.Outcome), Marked: true}
			if !n.Reported {
				result = section.Cell{Text: "no report", Level: section.Bad, Marked: true}
			}
			nodes.Rows = append(nodes.Rows, []section.Cell{{Text: n.Name}, result, {Text: n.Message}})
			for _, reason := range n.NotChecked {
				notChecked = append(notChecked, n.Name+": "+reason)
			}
		}
		p.writeRow("Result", section.OfOutcome(string(c.Outcome)), c.Summary)
		p.writeTable(nodes)
		p.writeProblems(c.Findings)
		p.writeMissing("Not checked", notChecked)
	}
}

// Preflight is the result of preflight as text: the findings, and what was not
// examined.
func Preflight(r report.Preflight) Text {
	return func(p *page) {
		p.writeRow("Result", section.OfOutcome(string(r.Outcome)), r.Summary)
		label := "Examined"
		for _, what := range r.Examined {
			p.writeRow(label, "", what)
			label = ""
		}
		all := make([]report.ClusterProblem, len(r.Findings))
		for i, f := range r.Findings {
			all[i] = report.ClusterProblem{ID: f.ID, Level: f.Level, Message: f.Message, Remediation: f.Remediation}
		}
		p.writeProblems(all)
		p.writeMissing("Not examined", r.NotExamined)
	}
}

func (p *page) writeState(c report.Condition, now time.Time) {
	p.writeLine(span{text: pad("State:", labelWidth)}, mark(section.OfCondition(c)), span{text: " "},
		span{string(c.Reason), bold},
		span{text: fmt.Sprintf(" (%s=%s for %s)", c.Type, c.Status, report.Age(now.Sub(c.LastTransitionTime)))})
	if c.Message != "" {
		p.writeRow("Message", "", c.Message)
	}
}

func (p *page) writeSections(all []section.Section) {
	for _, s := range all {
		for _, r := range s.Rows {
			if r.Label != "" {
				p.writeRow(r.Label, r.Level, r.Text)
				continue
			}
			for line := range strings.SplitSeq(strings.TrimSuffix(r.Text, "\n"), "\n") {
				p.writeRow("", r.Level, line)
			}
		}
		for _, t := range s.Tables {
			p.writeTable(t)
		}
	}
}

// writeProblems writes problems, each with its ID and remediation.
func (p *page) writeProblems(problems []report.ClusterProblem) {
	for _, problem := range problems {
		label := "Problem"
		if problem.Level == report.LevelWarning {
			label = "Warning"
		}
		p.writeLine()
		p.writeRow(label, section.OfProblem(problem.Level), fmt.Sprintf("%s [%s]", problem.Message, problem.ID))
		if problem.Check != "" {
			p.writeRow("Nodes", "", strings.Join(problem.Nodes, ", "))
		}
		p.writeRow("Fix", "", problem.Remediation)
		for _, command := range problem.Commands {
			p.text.WriteString("  " + printable.Line(command) + "\n") // in one line, so that it can be copied
		}
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
