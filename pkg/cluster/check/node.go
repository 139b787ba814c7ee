// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/nodes"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Limits of a node's result, far above real values. A node is not trusted.
const (
	maxFindings   = 200
	maxNotChecked = 100
	maxChecks     = 100
	maxText       = 4 << 10
	maxName       = 64
	maxPerFinding = 16 // commands, and sources
)

// idForm is the grammar of the names of findings and checks.
var idForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// Node is the result of the check on one node.
type Node struct {
	Name     string
	Outcome  report.CheckOutcome // of the whole check; empty: the node has not reported
	Summary  string
	Checks   []report.CheckResult
	Findings []report.ClusterProblem // without their nodes
	// NotChecked are the checks that could not run, or not completely, with the reason.
	NotChecked []string
	Addresses  []netip.Addr // from which the node tests API VIPs
	Held       []netip.Addr // API VIPs of the node
	BGP        bool         // several nodes hold a VIP at once
	// Problem is the reason why the node did not report, and Remediation the sentence with the fix.
	Problem, Remediation string
}

// document is the result of `http01-proxyd check -o json`.
type document struct {
	Outcome    report.CheckOutcome `json:"outcome"`
	Held       []netip.Addr        `json:"held"` // missing in earlier versions
	Management string              `json:"management"`
	Summary    string              `json:"summary"`
	// Incomplete are the necessary checks that did not run, or not completely.
	Incomplete []string `json:"incomplete"`
	Checks     []struct {
		Name       string                  `json:"name"`
		Outcome    report.CheckOutcome     `json:"outcome"`
		Text       string                  `json:"text"`
		NotChecked string                  `json:"notChecked"`
		Incomplete *bool                   `json:"incomplete"` // nil in earlier versions
		Findings   []report.ClusterProblem `json:"findings"`
		Addresses  []netip.Addr            `json:"addresses"` // missing in earlier versions
	} `json:"checks"`
}

// Read reads the output of `http01-proxyd check -o json` of a node. Text is limited and
// printable.
func Read(o nodes.Output) Node {
	parsed := nodes.Decode[document](&o, "Check")
	if o.Problem == "" {
		if o.Note != "" {
			parsed.Incomplete = append(parsed.Incomplete, o.Note)
		}
		n, err := parsed.node(o.Node)
		if err == nil && o.Note != "" {
			n.NotChecked = append(n.NotChecked, o.Note)
		}
		if err == nil {
			return n
		}
		o.Reject("Check", fmt.Errorf("not a result of check: %w", err))
	}
	return Node{Name: o.Node, Problem: o.Problem, Remediation: o.Remediation}
}

func (parsed document) node(name string) (Node, error) {
	if !parsed.Outcome.IsKnown() {
		return Node{}, fmt.Errorf("its outcome is %.100q", parsed.Outcome)
	}
	n := Node{
		Name: name, Outcome: parsed.Outcome, Summary: clean(parsed.Summary),
		Held: first(parsed.Held), BGP: parsed.Management == report.ManagementBGP,
	}
	if len(parsed.Incomplete) > 0 {
		n.Outcome = report.Worst(n.Outcome, report.CheckIncomplete)
	}
	for _, c := range parsed.Checks {
		if !idForm.MatchString(c.Name) || len(c.Name) > maxName {
			return Node{}, fmt.Errorf("a check with the name %.100q", c.Name)
		}
		shown := report.CheckResult{Name: c.Name, Text: clean(c.Text)}
		if c.Outcome.IsKnown() { // a newer version may have others
			shown.Outcome = c.Outcome
		}
		n.Checks = append(n.Checks, shown)
		switch {
		case c.NotChecked != "":
			n.NotChecked = append(n.NotChecked, c.Name+": "+clean(c.NotChecked))
		case c.Outcome == report.CheckSkipped && (c.Incomplete == nil || *c.Incomplete): // else nothing to check
			n.NotChecked = append(n.NotChecked, c.Name+": "+clean(c.Text))
		}
		n.Addresses = append(n.Addresses, first(c.Addresses)...)
		for _, f := range c.Findings {
			if !idForm.MatchString(f.ID) || len(f.ID) > maxName {
				return Node{}, fmt.Errorf("a finding with the ID %.100q", f.ID)
			}
			if f.Level != report.LevelWarning {
				f.Level = report.LevelProblem // also an unknown level of a newer version
			}
			n.Findings = append(n.Findings, report.ClusterProblem{
				ID: f.ID, Level: f.Level, Check: c.Name, Message: clean(f.Message), Remediation: clean(f.Remediation),
				Commands: withoutItself(Commands(name, findings.ID(f.ID), first(f.Commands))), Sources: first(f.Sources),
			})
		}
	}
	n.Checks = n.Checks[:min(len(n.Checks), maxChecks)]
	if len(n.Findings) > maxFindings || len(n.NotChecked) > maxNotChecked {
		return Node{}, fmt.Errorf("%d findings, and %d checks that were skipped", len(n.Findings), len(n.NotChecked))
	}
	return n, nil
}

// withoutItself removes the command whose output this is, which a node recommends to its administrator.
func withoutItself(commands []string) []string {
	return slices.DeleteFunc(commands, func(c string) bool { return c == "oc http01 check" })
}

// first returns the first elements of a list of a node.
func first[T any](list []T) []T { return list[:min(len(list), maxPerFinding)] }

func clean(text string) string { return printable.Truncate(text, maxText) }

func (n Node) reported() bool { return n.Outcome != "" }
