// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// WriteClusterStatus writes the status of a cluster as text: the state, the holders of the
// VIPs, the nodes and the problems. A wide text has the messages of the nodes.
func WriteClusterStatus(w io.Writer, s report.ClusterStatus, wide bool, view View) error {
	p := &page{view: view}
	p.writeState(s.Condition, s.Time)
	p.writeClusterVIPs(s)
	p.writeNodes(s, wide)
	p.writeProblems(s.Problems)
	return p.writeTo(w)
}

func (p *page) writeClusterVIPs(s report.ClusterStatus) {
	if len(s.VIPs) == 0 {
		return
	}
	columns := []column{{title: "API VIP"}, {title: "HELD BY", minWidth: 12}, {title: "FOR"}}
	tested := slices.ContainsFunc(s.VIPs, func(v report.ClusterVIP) bool { return !v.Tested.IsZero() })
	if tested {
		columns = append(columns, column{title: "PORT 80", minWidth: 20})
	}
	rows := make([][]span, 0, len(s.VIPs))
	for _, v := range s.VIPs {
		holder := span{strings.Join(v.Holders, ", "), plain}
		if !v.Healthy() {
			holder = span{cmp.Or(holder.text, "no node"), red}
		}
		rows = append(rows, []span{{text: v.Address.String()}, holder, {text: ageSince(v.Since, s.Time)}})
		if tested {
			port80 := span{text: v.DescribeTests(s.Time)}
			if len(v.UnreachableFrom) > 0 {
				port80.style = red
			}
			rows[len(rows)-1] = append(rows[len(rows)-1], port80)
		}
	}
	p.writeTable(columns, rows)
}

func (p *page) writeNodes(s report.ClusterStatus, wide bool) {
	columns := []column{
		{title: "NODE", minWidth: 12},
		{title: "STATE"},
		{title: "FOR"},
		{title: "VIPS HELD", minWidth: 12},
		{title: "VERSION", minWidth: 7, optional: true},
	}
	if wide {
		columns = append(columns, column{title: "MESSAGE", minWidth: 20})
	}
	rows := make([][]span, 0, len(s.Nodes))
	for _, n := range s.Nodes {
		var held []string
		for _, v := range n.VIPs {
			if v.State == report.VIPHeld {
				held = append(held, v.Address.String())
			}
		}
		age := "-"
		if n.Reported {
			age = ageSince(n.Condition.LastTransitionTime, s.Time)
		}
		mark := conditionMark(n.Condition)
		row := []span{
			{text: n.Name},
			{mark.text + " " + string(n.Condition.Reason), mark.style},
			{text: age},
			{text: cmp.Or(strings.Join(held, ", "), "-")},
			{text: cmp.Or(n.Version, "-")},
		}
		if wide {
			row = append(row, span{text: n.Condition.Message})
		}
		rows = append(rows, row)
	}
	p.writeTable(columns, rows)
}

func ageSince(since, now time.Time) string {
	if since.IsZero() {
		return "-"
	}
	return report.Age(now.Sub(since))
}

// writeProblems writes problems, each with its ID and remediation.
func (p *page) writeProblems(problems []report.ClusterProblem) {
	for _, problem := range problems {
		label, mark := "Problem", markError()
		if problem.Level == report.LevelWarning {
			label, mark = "Warning", markWarning()
		}
		p.writeLine()
		p.writeRow(label, mark, fmt.Sprintf("%s [%s]", problem.Message, problem.ID))
		if problem.Check != "" {
			p.writeRow("Nodes", span{}, strings.Join(problem.Nodes, ", "))
		}
		p.writeRow("Fix", span{}, problem.Remediation)
		for _, command := range problem.Commands {
			p.text.WriteString("  " + printable.Line(command) + "\n") // in one line, so that it can be copied
		}
	}
}

// WriteClusterCheck writes the result of a check on all nodes as text: the nodes, the
// findings, and what was not checked.
func WriteClusterCheck(w io.Writer, c report.ClusterCheck, view View) error {
	p := &page{view: view}
	p.writeRow("Result", outcomeMark(string(c.Outcome)), c.Summary)
	rows := make([][]span, 0, len(c.Nodes))
	for _, n := range c.Nodes {
		mark, outcome := outcomeMark(n.Outcome), n.Outcome
		if !n.Reported {
			mark, outcome = markError(), "no report"
		}
		rows = append(rows, []span{{text: n.Name}, {mark.text + " " + outcome, mark.style}, {text: n.Message}})
	}
	p.writeTable([]column{{title: "NODE", minWidth: 12}, {title: "RESULT"}, {title: "SUMMARY", minWidth: 20}}, rows)
	p.writeProblems(c.Findings)
	first := true
	for _, n := range c.Nodes {
		for _, reason := range n.NotChecked {
			if first {
				p.writeLine()
				first = false
			}
			p.writeRow("Not checked", markUnused(), n.Name+": "+reason)
		}
	}
	return p.writeTo(w)
}

func outcomeMark(outcome string) span {
	switch report.ClusterOutcome(outcome) {
	case report.ClusterOK:
		return markOK()
	case report.ClusterProblems:
		return markError()
	case report.ClusterWarnings, report.ClusterIncomplete:
		return markWarning()
	}
	return markUnused()
}
