// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
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

// ClusterResult returns the result of a check of the whole cluster.
func ClusterResult(id, command, output string) Result {
	c := byID(id)
	return Result{Check: c, Where: "cluster", Command: command, Output: output, Outcome: c.judge(Node{}, output)}
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
	slices.SortStableFunc(all, func(a, b Result) int { return cmp.Compare(a.Check.ID, b.Check.ID) })
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

// Write writes the report as Markdown. Outputs are indented: no line of them can end
// their block.
func (r Report) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Verification of http01-proxyd on a cluster\n\nReview this report before you attach it to an issue: it has names and addresses of nodes.\n\n")
	fmt.Fprintf(&b, "- time: %s\n- oc-http01: %s\n- OpenShift: %s\n", r.Time.UTC().Format(time.RFC3339), printable.Line(r.Tool), printable.Truncate(r.OpenShift, maxLine))
	for _, n := range r.Nodes {
		fmt.Fprintf(&b, "- %s: %s\n", n.Name, printable.Truncate(n.description(), maxLine))
	}
	results := r.Results()
	b.WriteString("\n| check | where | result |\n|---|---|---|\n")
	for _, one := range results {
		fmt.Fprintf(&b, "| %s: %s | %s | %s |\n", one.Check.ID, one.Check.Title, one.Where, one.Outcome)
	}
	for i, one := range results {
		if i == 0 || results[i-1].Check.ID != one.Check.ID {
			fmt.Fprintf(&b, "\n## %s: %s\n\nExpected: %s\n", one.Check.ID, one.Check.Title, one.Check.Expected)
		}
		fmt.Fprintf(&b, "\n%s, %s:\n\n    $ %s\n", one.Where, one.Outcome, printable.Line(one.Command))
		writeOutput(&b, one.Output)
		if one.Outcome == Different {
			fmt.Fprintf(&b, "\n%s\n", one.Check.Hint)
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("cannot print the report: %w", err)
	}
	return nil
}

func writeOutput(b *strings.Builder, output string) {
	all := lines(output)
	for i, line := range all {
		if i == maxLines {
			fmt.Fprintf(b, "    (%d more lines)\n", len(all)-maxLines)
			return
		}
		fmt.Fprintf(b, "    %s\n", printable.Truncate(strings.TrimRight(line, " \t\r"), maxLine))
	}
	if len(all) == 0 {
		b.WriteString("    (nothing)\n")
	}
}
