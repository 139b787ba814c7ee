// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Combine combines the results of all nodes, and what was found elsewhere. It merges equal findings of several
// nodes.
func Combine(nodes []Node, now time.Time, others ...report.ClusterProblem) report.ClusterCheck {
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	c := report.ClusterCheck{
		Header: report.NewHeader("ClusterCheck"), Time: now.UTC().Truncate(time.Second),
		Nodes: make([]report.NodeCheck, len(nodes)), NotExamined: []string{},
	}
	var elsewhere []string
	c.Findings, elsewhere = mergeFindings(nodes)
	c.Findings = append(c.Findings, others...)
	slices.SortStableFunc(c.Findings, func(a, b report.ClusterProblem) int { return cmp.Compare(a.Level, b.Level) })
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

// mergeFindings returns the findings of all nodes, and the nodes with a finding whose cause
// another node found.
func mergeFindings(nodes []Node) (all []report.ClusterProblem, elsewhere []string) {
	all = []report.ClusterProblem{}
	var unassigned []netip.Addr
	for _, n := range nodes {
		if !n.reported() {
			p := compared(findings.NodeNotReporting, n.Name+": "+n.Problem, []string{n.Name}, nil)
			p.Remediation = n.Remediation
			all = append(all, p)
		}
		for _, f := range n.Findings {
			unreachable := f.ID == string(findings.ProxyUnreachable)
			switch vips := addressesIn(f.Message); {
			case unreachable && heldByNone(nodes, vips):
				unassigned = append(unassigned, vips...)
			case unreachable && explained(nodes, n, vips):
				elsewhere = append(elsewhere, n.Name)
			default:
				f.Message += namedSources(nodes, f.Sources)
				all = merge(all, f, n.Name)
			}
		}
	}
	if len(unassigned) > 0 {
		all = append(all, noHolder(nodes, unassigned))
	}
	return append(all, duplicates(nodes)...), elsewhere
}

// merge adds a finding of a node. If another node has the same one, they are one.
func merge(all []report.ClusterProblem, f report.ClusterProblem, node string) []report.ClusterProblem {
	same := slices.IndexFunc(all, func(other report.ClusterProblem) bool {
		return other.ID == f.ID && other.Level == f.Level && other.Message == f.Message &&
			other.Remediation == f.Remediation
	})
	if same < 0 {
		same, all = len(all), append(all, f)
	}
	if !slices.Contains(all[same].Nodes, node) {
		all[same].Nodes = append(all[same].Nodes, node)
	}
	for _, command := range f.Commands {
		if !slices.Contains(all[same].Commands, command) {
			all[same].Commands = append(all[same].Commands, command)
		}
	}
	return all
}

// heldByNone reports whether every node has reported which VIPs it holds, and none holds these. A node that
// cannot read its VIPs may hold them.
func heldByNone(nodes []Node, vips []netip.Addr) bool {
	return len(vips) > 0 && !slices.ContainsFunc(nodes, func(n Node) bool {
		return n.Held == nil || slices.ContainsFunc(n.Held, func(a netip.Addr) bool { return slices.Contains(vips, a) }) ||
			slices.ContainsFunc(n.Findings, func(f report.ClusterProblem) bool { return f.Check == "vips" })
	})
}

// noHolder returns the problem that no node holds these VIPs. The other nodes of the cluster, if not all
// were checked, may hold them.
func noHolder(nodes []Node, vips []netip.Addr) report.ClusterProblem {
	slices.SortFunc(vips, netip.Addr.Compare)
	message := "no checked node holds " + strings.Join(texts(slices.Compact(vips)), " or ")
	return compared(findings.VIPUnassigned, message, namesOf(nodes), nil)
}

// duplicates returns the problems of VIPs that several nodes hold, unless BGP announces them from all of
// these. VIPs with the same holders are one problem.
func duplicates(nodes []Node) (all []report.ClusterProblem) {
	vips := map[string][]netip.Addr{} // by the names of their holders
	holders := map[netip.Addr][]Node{}
	for _, n := range nodes {
		for _, vip := range n.Held {
			if !n.BGP && !slices.ContainsFunc(holders[vip], n.isSame) {
				holders[vip] = append(holders[vip], n)
			}
		}
	}
	for _, vip := range slices.SortedFunc(maps.Keys(holders), netip.Addr.Compare) {
		if names := namesOf(holders[vip]); len(names) > 1 {
			key := strings.Join(names, " and ")
			vips[key] = append(vips[key], vip)
		}
	}
	for _, names := range slices.Sorted(maps.Keys(vips)) {
		held, verb := texts(vips[names]), "is"
		if len(held) > 1 {
			verb = "are"
		}
		message := fmt.Sprintf("%s %s held by %s", strings.Join(held, " and "), verb, names)
		all = append(all, compared(findings.VIPDuplicate, message, namesOf(holders[vips[names][0]]), vips[names]))
	}
	return all
}

func (n Node) isSame(other Node) bool { return n.Name == other.Name }

func namesOf(nodes []Node) (all []string) {
	for _, n := range nodes {
		all = append(all, n.Name)
	}
	return all
}

func texts(addresses []netip.Addr) (all []string) {
	for _, a := range addresses {
		all = append(all, a.String())
	}
	return all
}

// compared returns a problem that only a comparison of the nodes shows.
func compared(id findings.ID, message string, nodes []string, vips []netip.Addr) report.ClusterProblem {
	e, _ := findings.Lookup(id)
	return report.ClusterProblem{
		ID: string(id), Level: string(e.Level), Message: message, Remediation: e.Remediation, Nodes: nodes,
		Commands: CommandsFor(id, nodes, vips),
	}
}

// explained reports whether other nodes show why n does not reach the VIPs: the holder has a fault, or
// somebody has observed what became of the packets of n. Packets of the other address family explain
// nothing.
func explained(nodes []Node, n Node, vips []netip.Addr) bool {
	return len(vips) > 0 && !slices.ContainsFunc(vips, func(vip netip.Addr) bool {
		return !observed(nodes, n, vip.BitLen()) && !faultyHolder(nodes, vip)
	})
}

// addressesIn returns the addresses that a message names, with or without a port.
func addressesIn(message string) (all []netip.Addr) {
	for word := range strings.FieldsSeq(message) {
		word = strings.Trim(word, "(),:;")
		endpoint, err := netip.ParseAddrPort(word)
		address := endpoint.Addr()
		if err != nil {
			address, err = netip.ParseAddr(word)
		}
		if err == nil {
			all = append(all, address)
		}
	}
	return all
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
