// SPDX-License-Identifier: Apache-2.0

package section

import "github.com/http01-proxyd/http01-proxyd/pkg/report"

// ClusterCheck returns the tables of a check on all nodes: the result of each node, and a row for each
// check with a column for each node.
func ClusterCheck(c report.ClusterCheck) (nodes, checks Table) {
	nodes = Table{
		"Result of the check on each node",
		[]Column{{Title: "Node", MinWidth: 12}, {Title: "Result"}, {Title: "Summary", MinWidth: 20}},
		nil,
	}
	checks = Table{"Result of each check", []Column{{Title: "Check"}}, nil}
	rows := map[string]int{}
	for at, n := range c.Nodes {
		result := outcome(n.Outcome)
		if !n.Reported {
			result = Cell{Text: "no report", Level: Warning, Marked: true}
		}
		nodes.Rows = append(nodes.Rows, []Cell{{Text: n.Name}, result, {Text: n.Message}})
		checks.Columns = append(checks.Columns, Column{Title: n.Name})
		for _, one := range n.Checks {
			row, known := rows[one.Name]
			if !known {
				row = len(checks.Rows)
				rows[one.Name] = row
				checks.Rows = append(checks.Rows, append([]Cell{{Text: one.Name}}, make([]Cell, len(c.Nodes))...))
			}
			checks.Rows[row][at+1] = outcome(one.Outcome)
		}
	}
	return nodes, checks
}

func outcome(o report.CheckOutcome) Cell {
	return Cell{Text: string(o), Level: OfOutcome(o), Marked: o != ""}
}
