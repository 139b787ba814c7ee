// SPDX-License-Identifier: Apache-2.0

package section

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Cluster returns the sections of a cluster: the holders of the VIPs, and the nodes. Wide
// sections have the messages of the nodes. A node with a problem is never marked as good.
func Cluster(s report.ClusterStatus, wide bool) []Section {
	return []Section{
		{Title: "Holders of the API VIPs", Tables: tables(clusterVIPs(s))},
		{Title: "Nodes", Tables: []Table{nodes(s, wide)}},
	}
}

func clusterVIPs(s report.ClusterStatus) Table {
	table := Table{
		"API VIPs and the nodes that hold them now",
		[]Column{{Title: "API VIP"}, {Title: "Held by", MinWidth: 12}, {Title: "For"}},
		nil,
	}
	tested := slices.ContainsFunc(s.VIPs, func(v report.ClusterVIP) bool { return !v.Tested.IsZero() })
	if tested {
		table.Columns = append(table.Columns, Column{Title: "Port 80", MinWidth: 20})
	}
	for _, v := range s.VIPs {
		holder := Cell{Text: strings.Join(v.Holders, ", ")}
		if !v.Healthy() {
			holder = Cell{Text: cmp.Or(holder.Text, "no node"), Level: Bad}
		}
		if len(v.Holders) == 0 && v.Since.IsZero() { // a node that does not report may hold it
			holder.Text = "unknown"
		}
		row := []Cell{{Text: v.Address.String()}, holder, since(v.Since, s.Time)}
		if tested {
			port80 := Cell{Text: v.DescribeTests(s.Time)}
			if len(v.UnreachableFrom) > 0 {
				port80 = Cell{Text: port80.Text + reference(string(findings.VIPUnreachableFromHere)), Level: Bad}
			}
			row = append(row, port80)
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}

func nodes(s report.ClusterStatus, wide bool) Table {
	table := Table{"State of the service on each node", []Column{
		{Title: "Node", MinWidth: 12},
		{Title: "State"},
		{Title: "For"},
		{Title: "VIPs held", MinWidth: 9},
		{Title: "Version", Optional: true},
	}, nil}
	if wide {
		table.Columns = append(table.Columns, Column{Title: "Message", MinWidth: 20})
	}
	for _, n := range s.Nodes {
		var held []string
		for _, v := range n.VIPs {
			if v.State == report.VIPHeld {
				held = append(held, v.Address.String())
			}
		}
		age := Cell{Text: "-"}
		if n.Reported {
			age = since(cmp.Or(n.StateSince, n.Condition.LastTransitionTime), s.Time)
		}
		level := OfCondition(n.Condition)
		for _, p := range s.Problems {
			if slices.Contains(p.Nodes, n.Name) {
				level = Worse(level, OfProblem(p.Level))
			}
		}
		for _, v := range s.VIPs {
			if len(v.UnreachableFrom) > 0 && slices.Contains(v.Holders, n.Name) {
				level = Bad
			}
		}
		row := []Cell{
			{Text: n.Name},
			{Text: string(n.Condition.Reason), Level: level, Marked: true},
			age,
			{Text: cmp.Or(strings.Join(held, ", "), "-")},
			{Text: cmp.Or(report.ShortVersion(n.Version), "-")},
		}
		if wide {
			row = append(row, Cell{Text: n.Condition.Message})
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}

// Serving returns what the nodes that hold API VIPs report about the ingress, the last challenge and the
// certificates. Each row names its node.
func Serving(hosts map[string]report.Report, now time.Time) (all []Row) {
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		r := hosts[name]
		if !slices.ContainsFunc(r.VIPs, func(v report.VIP) bool { return v.State == report.VIPHeld }) {
			continue
		}
		for _, row := range (describer{r, now, verdict.Problems(r, now)}).rows() {
			if slices.Contains([]string{ingressLabel, challengeLabel, certificateLabel}, row.Label) && !row.Detail {
				row.Text, row.Short = cmp.Or(row.Short, row.Text)+" ("+name+")", ""
				all = append(all, row)
			}
		}
	}
	return all
}

// ClusterChallenges are the last challenges on all nodes, newest first.
func ClusterChallenges(hosts map[string]report.Report, now time.Time) Table {
	return ofNodes(hosts, func(r report.Report) Table { return Challenges(r.Challenges, now) })
}

// ClusterChanges are the last changes of VIPs and conditions on all nodes, newest first.
func ClusterChanges(hosts map[string]report.Report) Table { return ofNodes(hosts, changes) }

// ofNodes joins the tables of nodes. Their first cell has the time.
func ofNodes(hosts map[string]report.Report, table func(report.Report) Table) Table {
	var all Table
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		one := table(hosts[name])
		all.Caption, all.Columns = one.Caption, slices.Insert(one.Columns, 1, Column{Title: "Node"})
		for _, row := range one.Rows {
			all.Rows = append(all.Rows, slices.Insert(row, 1, Cell{Text: name}))
		}
	}
	slices.SortStableFunc(all.Rows, func(a, b []Cell) int {
		if a[0].Time.IsZero() {
			return cmp.Compare(b[0].Text, a[0].Text)
		}
		return b[0].Time.Compare(a[0].Time)
	})
	return all
}
