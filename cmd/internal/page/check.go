// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// ForClusterCheck returns the page of a check on all nodes of a cluster. The name of its API may be
// empty.
func ForClusterCheck(apiName string, c report.ClusterCheck, now time.Time) []byte {
	nodes := section.Table{
		Caption: "The result of the check on each node",
		Columns: []section.Column{{Title: "Node"}, {Title: "Result"}, {Title: "Summary", MinWidth: 20}},
	}
	missing := section.Section{Title: "Not checked"}
	for _, n := range c.Nodes {
		result := section.Cell{Text: n.Outcome, Level: section.OfOutcome(n.Outcome), Marked: true}
		if !n.Reported {
			result = section.Cell{Text: "no report", Level: section.Bad, Marked: true}
		}
		nodes.Rows = append(nodes.Rows, []section.Cell{{Text: n.Name}, result, {Text: n.Message}})
		for _, reason := range n.NotChecked {
			missing.Rows = append(missing.Rows, section.Row{Label: n.Name, Level: section.Neutral, Text: reason})
		}
	}
	all := parts{stateCard(section.OfOutcome(string(c.Outcome)), c.Summary, "Checked "+clock(c.Time)+" UTC")}
	if len(c.Findings) > 0 {
		all = append(all, card("h2", "Problems", problemList(c.Findings)))
	}
	all = append(all, card("h2", "Nodes", table(nodes)))
	if len(missing.Rows) > 0 {
		all = append(all, card("h2", missing.Title, contents(missing)))
	}
	const title = "http01-proxyd cluster check"
	count := fmt.Sprintf("Cluster with %d control-plane nodes", len(c.Nodes))
	heading := cmp.Or(strings.TrimPrefix(apiName, "api."), count)
	return document(title+": "+heading, title, heading, now, all)
}
