// SPDX-License-Identifier: Apache-2.0

package result

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

func TestSummary(t *testing.T) {
	t.Parallel()
	fine, problem := Result{Outcome: report.CheckOK},
		Result{Outcome: report.CheckProblem, Findings: []findings.Finding{{ID: findings.PortInUse, Level: findings.Problem}}}
	warning := Result{
		Outcome: report.CheckWarning, Findings: []findings.Finding{{ID: findings.VIPsShared, Level: findings.Warning}},
	}
	for name, tt := range map[string]struct {
		root    bool
		results []Result
		outcome report.CheckOutcome
		want    string
		trace   []Step
		advice  int
	}{
		"no problems":  {true, []Result{fine, fine}, report.CheckOK, "No problems on a (2 checks).", nil, 0},
		"without root": {false, []Result{fine, {Outcome: report.CheckSkipped}}, report.CheckOK, "No problems on a (1 check, 1 skipped).", nil, 1},
		"without essential checks": {
			true,
			[]Result{fine, {Name: "certificate", Outcome: report.CheckSkipped, Incomplete: true}, {
				Name: "clock", Outcome: report.CheckSkipped,
				Incomplete: true,
			}, {Name: "ruleset", Outcome: report.CheckOK, NotChecked: "a table", Incomplete: true}},
			report.CheckIncomplete,
			"No problem was found on a, but essential checks are incomplete: certificate, ruleset (2 checks, 2 skipped).", nil,
			0,
		},
		"a warning, without essential checks": {
			true,
			[]Result{
				warning,
				{Name: "route", Outcome: report.CheckSkipped, Incomplete: true},
			},
			report.CheckIncomplete, "1 warning on a, and essential checks are incomplete: route (1 check, 1 skipped).", nil, 0,
		},
		"problems": {true, []Result{problem, fine, problem}, report.CheckProblem, "2 problems on a (3 checks).", nil, 0},
		"a warning": {
			true,
			[]Result{warning},
			report.CheckWarning, "1 warning on a (1 check).", nil, 0,
		},
		"the worst counts": {
			true,
			[]Result{{Outcome: report.CheckWarning}, problem, fine},
			report.CheckProblem, "1 problem on a (3 checks).", nil,
			0,
		},
		"a challenge": {
			true,
			[]Result{fine},
			report.CheckOK, "No problems on a (1 check).",
			[]Step{{Outcome: report.CheckOK}},
			0,
		},
		"a challenge that fails": {
			true,
			[]Result{fine},
			report.CheckProblem,
			`The challenge fails, but no cause was found on a (1 check). The challenge fails at the step "proxy" (192.0.2.5:80).`,
			[]Step{
				{Outcome: report.CheckOK},
				{Step: "proxy", To: "192.0.2.5:80", Outcome: report.CheckProblem},
				{Step: "solver", Outcome: report.CheckProblem},
			},
			0,
		},
		"a problem and a challenge": {
			true,
			[]Result{problem},
			report.CheckProblem, `1 problem on a (1 check). The challenge fails at the step "cert-manager".`,
			[]Step{{Step: "cert-manager", Outcome: report.CheckProblem}},
			0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := NewReport(Conditions{Host: "a", Privileged: tt.root}, tt.results, tt.trace)
			if r.Outcome != tt.outcome || r.Summary != tt.want || len(r.Advice) != tt.advice {
				t.Errorf("got %s %q %q", r.Outcome, r.Summary, r.Advice)
			}
		})
	}
}

// TestConsequences: findings that another finding explains are left out.
func TestConsequences(t *testing.T) {
	t.Parallel()
	unwell := findings.New(findings.ServiceNotReady, nil)
	unwell.CausedBy = []findings.ID{findings.IngressRefused}
	if got := withoutConsequences([]Result{
		{Name: "ingress", Outcome: report.CheckProblem, Findings: []findings.Finding{findings.New(findings.IngressRefused, nil)}},
		{Name: "self-check", Outcome: report.CheckProblem, Findings: []findings.Finding{findings.New(findings.ProxyUnreachable, nil)}},
		{Name: "service", Outcome: report.CheckProblem, Findings: []findings.Finding{unwell}},
	}); got[0].Outcome != report.CheckProblem || got[1].Outcome != report.CheckProblem ||
		got[2].Outcome != report.CheckSkipped {
		t.Errorf("a consequence that could be a cause: %+v", got)
	}
	down, label := findings.New(findings.ServiceNotRunning, nil), findings.New(findings.SELinuxLabel, nil)
	full := findings.New(findings.VIPsShared, nil)
	if got := withoutConsequences([]Result{
		{Name: "vip-holder", Outcome: report.CheckProblem, Findings: []findings.Finding{findings.New(findings.VIPLinkDown, nil)}},
		{Name: "dns", Outcome: report.CheckProblem, Findings: []findings.Finding{findings.New(findings.DNSNoServer, nil)}},
	}); got[1].Outcome != report.CheckSkipped {
		t.Errorf("with a link that is down: %+v", got)
	}
	got := withoutConsequences([]Result{
		{Name: "one", Outcome: report.CheckProblem, Findings: []findings.Finding{down}},
		{Name: "both", Outcome: report.CheckProblem, Findings: []findings.Finding{full, down}},
		{Name: "cause", Outcome: report.CheckProblem, Findings: []findings.Finding{label}},
		{Name: "well", Outcome: report.CheckOK, Text: "well"},
	})
	want := []Result{
		{Name: "one", Outcome: report.CheckSkipped, Text: `explained by the check "cause"`},
		{Name: "both", Outcome: report.CheckWarning, Findings: []findings.Finding{full}},
		{Name: "cause", Outcome: report.CheckProblem, Findings: []findings.Finding{label}},
		{Name: "well", Outcome: report.CheckOK, Text: "well"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
