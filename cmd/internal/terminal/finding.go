// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"io"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// FindingList describes findings that can occur, as "explain -o json" prints it.
type FindingList struct {
	report.Header

	Findings []Finding `json:"findings"`
}

// Finding describes a finding that can occur. Names in braces are values of the host.
type Finding struct {
	ID            string `json:"id"`                // never changes
	Level         string `json:"level"`             // warning: challenges may fail later or for some clients; problem: challenges fail
	Check         string `json:"check"`             // the check that detects it
	Cause         string `json:"cause,omitempty"`   // the value of CAUSE in the journal, and of a label of the metrics
	Symptom       string `json:"symptom"`           // what is visible without check
	Message       string `json:"message"`           // what is wrong
	Remediation   string `json:"remediation"`       // how to fix it
	Example       string `json:"example,omitempty"` // YAML that the remediation mentions
	Verification  string `json:"verification"`      // how to verify that it is fixed
	Documentation string `json:"documentation"`     // URL
}

// WriteFindings explains the findings.
func WriteFindings(w io.Writer, findings []Finding, view View) error {
	p := &page{view: view}
	for i, f := range findings {
		if i > 0 {
			p.writeLine()
		}
		mark := markWarning()
		if f.Level == "problem" {
			mark = markError()
		}
		p.writeLine(mark, span{text: " "}, span{f.ID, bold}, span{text: " (" + f.Level + ")"})
		p.writeRow("Symptom", span{}, f.Symptom)
		p.writeRow("Cause", span{}, f.Message)
		p.writeRow("Remediation", span{}, f.Remediation)
		p.writeBlock("Example", f.Example)
		p.writeRow("Verification", span{}, f.Verification)
		p.writeRow("Check", span{}, f.Check)
		if f.Cause != "" {
			p.writeRow("Journal", span{}, "CAUSE="+f.Cause)
		}
		p.writeRow("Documentation", span{}, f.Documentation)
	}
	if strings.Contains(p.text.String(), "{") {
		p.writeLine()
		for _, line := range wrap("Names in braces are values of the host. \"http01-proxyd check\" prints them.", view.Width) {
			p.writeLine(span{text: line})
		}
	}
	return p.writeTo(w)
}

// WriteFindingList lists the findings, one per line.
func WriteFindingList(w io.Writer, findings []Finding, view View) error {
	p := &page{view: view}
	rows := make([][]span, len(findings))
	for i, f := range findings {
		mark := markWarning()
		if f.Level == "problem" {
			mark = markError()
		}
		rows[i] = []span{{text: f.ID}, {f.Level, mark.style}, {text: f.Check}, {text: f.Symptom}}
	}
	p.writeTable([]column{{title: "ID"}, {title: "LEVEL"}, {title: "CHECK"}, {title: "SYMPTOM", minWidth: 20, optional: true}}, rows)
	return p.writeTo(w)
}
