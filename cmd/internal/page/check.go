// SPDX-License-Identifier: Apache-2.0

package page

import (
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// ForClusterCheck returns the page of a check on all nodes of a cluster. The name of its API may be
// empty.
func ForClusterCheck(apiName string, c report.ClusterCheck, now time.Time) []byte {
	missing := section.Section{Title: "Not checked"}
	for _, n := range c.Nodes {
		for _, reason := range n.NotChecked {
			missing.Rows = append(missing.Rows, section.Row{Label: n.Name, Level: section.Neutral, Text: reason})
		}
	}
	for _, reason := range c.NotExamined {
		missing.Rows = append(missing.Rows, section.Row{Level: section.Neutral, Text: reason})
	}
	nodes, checks := section.ClusterCheck(c)
	ids := anchorsOf(c.Findings)
	all := parts{
		stateCard(section.OfOutcome(c.Outcome), strings.TrimSuffix(c.Summary, "."),
			"Checked "+clock(c.Time)+" UTC"),
		problemCard(c.Findings, ids),
		card("h2", "Nodes", contents(section.Section{Tables: []section.Table{nodes, checks}}, ids)),
	}
	if len(missing.Rows) > 0 {
		all = append(all, card("h2", missing.Title, contents(missing, ids)))
	}
	heading := clusterHeading(strings.TrimPrefix(apiName, apiPrefix), len(c.Nodes))
	return document("http01-proxyd cluster check", heading, now, all)
}
