// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"regexp"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// FindingList describes findings that can occur, as "explain -o json" prints it.
type FindingList struct {
	report.Header

	Findings []Finding `json:"findings"`
}

// Finding describes a finding that can occur. Names in braces are placeholders.
type Finding struct {
	ID string `json:"id"` // never changes
	// warning: challenges may fail later or for some clients; problem: challenges fail
	Level       string `json:"level"`
	Check       string `json:"check"`           // the check that detects it
	Cause       string `json:"cause,omitempty"` // the value of CAUSE in the journal, and of a label of the metrics
	Symptom     string `json:"symptom"`         // what is visible without check
	Message     string `json:"message"`         // what is wrong
	Remediation string `json:"remediation"`     // how to fix it
	// Commands show what is wrong, and then fix it: on a workstation if they begin with oc, otherwise on the host.
	Commands      []string `json:"commands,omitempty"`
	Example       string   `json:"example,omitempty"` // YAML that the remediation mentions
	Verification  string   `json:"verification"`      // how to verify that it is fixed
	Documentation string   `json:"documentation"`     // URL
}

// placeholder matches a name in braces.
var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

// Findings explains the findings.
func Findings(findings []Finding) Text {
	return func(p *page) {
		for i, f := range findings {
			if i > 0 {
				p.writeLine()
			}
			head := []span{mark(section.OfProblem(f.Level)), {text: " "}}
			p.writeStyled(head, narrowIndent, span{f.ID + " (" + f.Level + ")", bold})
			p.writeRow("Symptom", "", f.Symptom)
			p.writeRow("Cause", "", f.Message)
			p.writeRow("Remediation", "", f.Remediation)
			p.writeBlock("Commands", strings.Join(f.Commands, "\n"))
			p.writeBlock("Example", f.Example)
			p.writeRow("Verification", "", f.Verification)
			p.writeRow("Check", "", f.Check)
			if f.Cause != "" {
				p.writeRow("Journal", "", "CAUSE="+f.Cause)
			}
			p.writeRow("Documentation", "", f.Documentation)
		}
		if placeholder.MatchString(p.text.String()) {
			p.writeLine()
			p.writeWrapped(nil, 0,
				"Names in braces are placeholders. The command that reports the finding prints their values.")
		}
	}
}

// ListedFindings lists the findings, one per line.
func ListedFindings(findings []Finding) Text {
	return func(p *page) {
		table := section.Table{Columns: []section.Column{
			{Title: "ID"}, {Title: "Level"}, {Title: "Check"}, {Title: "Symptom", MinWidth: 20, Optional: true},
		}}
		for _, f := range findings {
			table.Rows = append(table.Rows, []section.Cell{
				{Text: f.ID}, {Text: f.Level, Level: section.OfProblem(f.Level)}, {Text: f.Check}, {Text: f.Symptom},
			})
		}
		p.writeTable(table)
	}
}
