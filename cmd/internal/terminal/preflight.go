// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"io"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// WritePreflight writes the result of preflight as text: the findings, and what was not
// examined.
func WritePreflight(w io.Writer, r report.Preflight, view View) error {
	p := &page{view: view}
	p.writeRow("Result", outcomeMark(string(r.Outcome)), r.Summary)
	label := "Examined"
	for _, what := range r.Examined {
		p.writeRow(label, span{}, what)
		label = ""
	}
	all := make([]report.ClusterProblem, len(r.Findings))
	for i, f := range r.Findings {
		all[i] = report.ClusterProblem{ID: f.ID, Level: f.Level, Message: f.Message, Remediation: f.Remediation}
	}
	p.writeProblems(all)
	if len(r.NotExamined) > 0 {
		p.writeLine()
	}
	for _, what := range r.NotExamined {
		p.writeRow("Not examined", markUnused(), what)
	}
	return p.writeTo(w)
}
