// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/page"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// clusterCheckPage returns the page of a check on two nodes, of which one has not reported, with name
// in every text.
func clusterCheckPage(name string) []byte {
	return page.ForClusterCheck(name, report.ClusterCheck{
		Time: now, Outcome: report.CheckProblem, Summary: name,
		Nodes: []report.NodeCheck{
			{
				Name: "master0", Reported: true, Outcome: "problem", Message: name, NotChecked: []string{name},
				Checks: []report.CheckResult{{Name: name, Outcome: "ok"}},
			},
			{Name: "master1", Message: name},
		},
		Findings: []report.ClusterProblem{{
			ID: "dns-no-record", Level: report.LevelProblem, Check: "dns", Message: name, Remediation: name,
			Nodes: []string{"master0"}, Commands: []string{"oc debug node/master0 -- chroot /host " + name},
		}},
	}, now)
}

// TestClusterCheck: the result, the findings with their commands, and the result of each node. The page
// is inert, also with hostile texts.
func TestClusterCheck(t *testing.T) {
	t.Parallel()
	root := parse(t, clusterCheckPage("api.x"))
	got := visible(root)
	for _, want := range []string{
		"http01-proxyd cluster check: x http01-proxyd cluster check x Created", "api.x Checked 2026-03-04 12:30:00 UTC",
		"problem dns-no-record on master0 api.x Fix: api.x oc debug node/master0 -- chroot /host api.x",
		"master0 problem api.x master1 no report api.x",
		"Check master0 master1 api.x ok", "Not checked master0 api.x",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	for _, s := range hostile() {
		text := clusterCheckPage(s)
		expectInert(t, parse(t, text))
		if diff := cmp.Diff(structure(root), structure(parse(t, text))); diff != "" {
			t.Errorf("%q changes the elements (-want +got):\n%s", s, diff)
		}
	}
}
