// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Limits of one output in the report.
const (
	maxLines = 30
	maxLine  = 400
)

// Result is the outcome of a check on a node, or of the cluster.
type Result struct {
	Check   Check
	Where   string // the node, or the cluster
	Command string
	Output  string
	Outcome Outcome
}

// ClusterResult returns the result of a check of the whole cluster. What is expected
// depends on the nodes that have answered.
func ClusterResult(id string, nodes []Node, command, output string) Result {
	c := byID(id)
	answered := slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return n.problem != "" })
	all := Node{Layered: len(answered) > 0 && !slices.ContainsFunc(answered, func(n Node) bool { return !n.Layered })}
	return Result{Check: c, Where: "cluster", Command: command, Output: output, Outcome: c.judge(all, output)}
}

// NotRun returns the result of a check of the whole cluster that could not run.
func NotRun(id, reason string) Result {
	return Result{Check: byID(id), Where: "cluster", Command: byID(id).Command, Output: reason, Outcome: Undetermined}
}

// Report is what was found on a cluster.
type Report struct {
	Time            time.Time
	Tool, OpenShift string // versions
	Nodes           []Node
	Cluster         []Result
}

// Results returns the results in the order of the checks.
func (r Report) Results() []Result {
	all := slices.Clone(r.Cluster)
	for _, n := range r.Nodes {
		all = append(all, n.results()...)
	}
	slices.SortStableFunc(all, func(a, b Result) int { return strings.Compare(a.Check.ID, b.Check.ID) })
	return all
}

// Outcome returns the worst outcome.
func (r Report) Outcome() Outcome {
	for _, outcome := range []Outcome{Different, Undetermined} {
		if slices.ContainsFunc(r.Results(), func(r Result) bool { return r.Outcome == outcome }) {
			return outcome
		}
	}
	return AsExpected
}

// Document returns the report with limited and printable texts.
func (r Report) Document() report.Verification {
	d := report.Verification{
		Header: report.NewHeader("Verification"), Time: r.Time.UTC().Truncate(time.Second),
		Tool: printable.Line(r.Tool), OpenShift: printable.Truncate(r.OpenShift, maxLine), Outcome: string(r.Outcome()),
		Nodes: []report.VerifiedNode{}, Facts: []report.VerifiedFact{},
	}
	for _, n := range r.Nodes {
		d.Nodes = append(d.Nodes, n.verified())
	}
	for _, one := range r.Results() {
		c := one.Check
		if last := len(d.Facts) - 1; last < 0 || d.Facts[last].ID != c.ID {
			d.Facts = append(d.Facts, report.VerifiedFact{ID: c.ID, Title: c.Title, Expected: c.Expected, Remediation: c.Hint})
		}
		fact := &d.Facts[len(d.Facts)-1]
		fact.Results = append(fact.Results, report.VerifiedOutput{
			Where: one.Where, Outcome: string(one.Outcome), Command: printable.Line(one.Command), Output: limitedLines(one.Output),
		})
	}
	return d
}

// limitedLines returns the first lines of an output, which may be long.
func limitedLines(output string) []string {
	limited := []string{}
	all := lines(output)
	for i, line := range all {
		if i == maxLines {
			return append(limited, fmt.Sprintf("(%d more lines)", len(all)-maxLines))
		}
		limited = append(limited, printable.Truncate(strings.TrimRight(line, " \t\r"), maxLine))
	}
	return limited
}

// WriteMarkdown writes the document as Markdown. Outputs are indented: no line of them can
// end their block.
func WriteMarkdown(w io.Writer, d report.Verification) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Verification of http01-proxyd on a cluster\n\nReview this report before you attach it to an issue: it has names and addresses of nodes.\n\n")
	fmt.Fprintf(&b, "- time: %s\n- oc-http01: %s\n- OpenShift: %s\n", d.Time.Format(time.RFC3339), d.Tool, d.OpenShift)
	for _, n := range d.Nodes {
		fmt.Fprintf(&b, "- %s: %s\n", n.Name, describe(n))
	}
	b.WriteString("\n| check | where | result |\n|---|---|---|\n")
	for _, fact := range d.Facts {
		for _, one := range fact.Results {
			fmt.Fprintf(&b, "| %s: %s | %s | %s |\n", fact.ID, fact.Title, one.Where, one.Outcome)
		}
	}
	for _, fact := range d.Facts {
		fmt.Fprintf(&b, "\n## %s: %s\n\nExpected: %s\n", fact.ID, fact.Title, fact.Expected)
		for _, one := range fact.Results {
			fmt.Fprintf(&b, "\n%s, %s:\n\n    $ %s\n", one.Where, one.Outcome, one.Command)
			for _, line := range one.Output {
				fmt.Fprintf(&b, "    %s\n", line)
			}
			if len(one.Output) == 0 {
				b.WriteString("    (nothing)\n")
			}
			if one.Outcome == string(Different) {
				fmt.Fprintf(&b, "\n%s\n", fact.Remediation)
			}
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("cannot print the report: %w", err)
	}
	return nil
}

// describe returns one line about a node.
func describe(n report.VerifiedNode) string {
	if n.Problem != "" {
		return n.Problem
	}
	parts := []string{n.System}
	if n.State == "" {
		parts = append(parts, "the service has not answered")
	} else {
		parts = append(parts, "http01-proxyd "+n.Version, string(n.State))
	}
	if n.Layered {
		parts = append(parts, "the operating system image contains the binary")
	}
	if n.HoldsVIP {
		parts = append(parts, "holds the API VIP")
	}
	return strings.Join(parts, ", ")
}
