// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Combine combines the results of all nodes. It merges equal findings of several nodes.
func Combine(nodes []Node, now time.Time) report.ClusterCheck {
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	c := report.ClusterCheck{
		Header: report.NewHeader("ClusterCheck"), Time: now.UTC().Truncate(time.Second),
		Nodes: make([]report.NodeCheck, len(nodes)),
	}
	var elsewhere []string
	c.Findings, elsewhere = mergeFindings(nodes)
	for i, n := range nodes {
		c.Nodes[i] = report.NodeCheck{
			Name: n.Name, Reported: n.reported(), Outcome: n.Outcome, Message: cmp.Or(n.Problem, n.Summary),
			NotChecked: append([]string{}, n.NotChecked...), Checks: append([]report.CheckResult{}, n.Checks...),
		}
		if slices.Contains(elsewhere, n.Name) {
			c.Nodes[i].Message += " Another node found the cause."
		}
	}
	c.Outcome, c.Summary = conclude(nodes, c.Findings)
	return c
}

// mergeFindings returns the findings of all nodes, problems first, and the nodes with a finding whose cause
// another node found.
func mergeFindings(nodes []Node) (all []report.ClusterProblem, elsewhere []string) {
	all = []report.ClusterProblem{}
	for _, n := range nodes {
		if !n.reported() {
			all = append(all, report.ClusterProblem{
				ID: string(findings.NodeNotReporting), Level: report.LevelWarning, Message: n.Name + ": " + n.Problem,
				Remediation: n.Remediation, Nodes: []string{n.Name},
				Commands: []string{CommandOn(n.Name, "http01-proxyd check")},
			})
		}
		for _, f := range n.Findings {
			if f.ID == string(findings.ProxyUnreachable) && explained(nodes, n, f.Message) {
				elsewhere = append(elsewhere, n.Name)
				continue
			}
			f.Message += namedSources(nodes, f.Sources)
			same := slices.IndexFunc(all, func(other report.ClusterProblem) bool {
				return other.ID == f.ID && other.Level == f.Level && other.Message == f.Message &&
					other.Remediation == f.Remediation
			})
			if same < 0 {
				same, all = len(all), append(all, f)
			}
			if !slices.Contains(all[same].Nodes, n.Name) {
				all[same].Nodes = append(all[same].Nodes, n.Name)
			}
			for _, command := range f.Commands {
				if !slices.Contains(all[same].Commands, command) {
					all[same].Commands = append(all[same].Commands, command)
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b report.ClusterProblem) int { return cmp.Compare(a.Level, b.Level) })
	return all, elsewhere
}

// explained reports whether other nodes show why n does not reach the VIPs that the message names: the
// holder has a fault, or somebody has observed what became of the packets of n. Packets of the other
// address family explain nothing.
func explained(nodes []Node, n Node, message string) bool {
	vips := 0
	for word := range strings.FieldsSeq(message) {
		word = strings.Trim(word, "(),:;")
		endpoint, err := netip.ParseAddrPort(word)
		vip := endpoint.Addr()
		if err != nil {
			vip, err = netip.ParseAddr(word)
		}
		if err != nil {
			continue
		}
		if vips++; !observed(nodes, n, vip.BitLen()) && !faultyHolder(nodes, vip) {
			return false
		}
	}
	return vips > 0
}

// faultyHolder reports whether a node that holds a VIP has a fault because of which nothing responds
// there. A rule that drops packets may be about other clients.
func faultyHolder(nodes []Node, vip netip.Addr) bool {
	unreachable, _ := findings.Lookup(findings.ProxyUnreachable)
	return slices.ContainsFunc(nodes, func(n Node) bool {
		return slices.Contains(n.Held, vip) && slices.ContainsFunc(n.Findings, func(f report.ClusterProblem) bool {
			return f.Check != "ruleset" && slices.Contains(unreachable.CausedBy, findings.ID(f.ID))
		})
	})
}

// observed reports whether a node has observed packets of n of an address family.
func observed(nodes []Node, n Node, family int) bool {
	return slices.ContainsFunc(nodes, func(other Node) bool {
		return slices.ContainsFunc(other.Findings, func(f report.ClusterProblem) bool {
			return slices.ContainsFunc(f.Sources, func(source netip.Addr) bool {
				return slices.Contains(n.Addresses, source) && source.BitLen() == family
			})
		})
	})
}

// namedSources names the nodes with the source addresses of a finding.
func namedSources(nodes []Node, sources []netip.Addr) string {
	var named []string
	for _, source := range sources {
		i := slices.IndexFunc(nodes, func(n Node) bool { return slices.Contains(n.Addresses, source) })
		if i >= 0 {
			named = append(named, fmt.Sprintf("%v is %s", source, nodes[i].Name))
		}
	}
	if len(named) == 0 {
		return ""
	}
	return " (" + strings.Join(named, ", ") + ")"
}

// conclude returns the worst outcome of all nodes, and a summary. A node without a report leaves the check
// incomplete. The check is also incomplete if no node can hold an API VIP.
func conclude(nodes []Node, found []report.ClusterProblem) (outcome report.CheckOutcome, summary string) {
	reports, examined := 0, false
	for _, n := range nodes {
		if n.reported() {
			reports++
			examined = examined || n.Outcome != report.CheckNotApplicable
		}
		if !n.reported() || n.Outcome == report.CheckSkipped {
			n.Outcome = report.CheckIncomplete
		}
		outcome = report.Worst(outcome, n.Outcome)
	}
	var levels []string
	for _, f := range found {
		outcome = report.Worst(outcome, report.CheckOutcome(f.Level))
		if f.ID != string(findings.NodeNotReporting) {
			levels = append(levels, f.Level)
		}
	}
	summary = outcome.Summarize(levels)
	if !examined {
		outcome, summary = report.Worst(outcome, report.CheckIncomplete), "Nothing was checked"
	}
	return outcome, fmt.Sprintf("%s (%d of %s reported).", summary, reports, report.Count(len(nodes), "node"))
}
