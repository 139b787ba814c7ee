// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// some is a report with a line of each kind.
func some() Report {
	h := &host{name: "master-0", root: true}
	return h.summed([]Result{
		{Name: "config", Outcome: Fine, Text: "/etc/http01-proxyd/config.yaml"},
		{Name: "ruleset", Outcome: Failed, Findings: []findings.Finding{
			{ID: findings.InputDrops, Level: findings.Problem, Says: "chain input of table inet admin drops what is led to port 8888", Mend: "open the port: tcp dport 8888 accept"},
			{ID: findings.InputDropsSome, Level: findings.Warning, Says: "a name with an \x1b[31mescape\nand a newline", Mend: "none"},
		}},
		{Name: "mtu", Outcome: Warned, Unseen: "2001:db8::6: no way there", Findings: []findings.Finding{
			{ID: findings.PathBlackHole, Level: findings.Warning, Says: "too small", Mend: "widen it"},
		}},
		{Name: "dns", Outcome: Skipped, Text: "nothing to look at"},
	}, nil)
}

func TestWriteText(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		style Style
		want  string
	}{
		"a file": {Style{}, `
✓ config   /etc/http01-proxyd/config.yaml
✗ ruleset  chain input of table inet admin drops what is led to port 8888
           mend: open the port: tcp dport 8888 accept
! ruleset  a name with an [31mescape and a newline
           mend: none
! mtu      too small
           mend: widen it
- mtu      not looked at: 2001:db8::6: no way there
- dns      nothing to look at

1 problem and 2 warnings on master-0, by 3 checks; 1 could not look, or had nothing to look at (-).
`},
		"a narrow terminal": {Style{Width: 50}, `
✓ config   /etc/http01-proxyd/config.yaml
✗ ruleset  chain input of table inet admin drops
           what is led to port 8888
           mend: open the port: tcp dport 8888
           accept
! ruleset  a name with an [31mescape and a newline
           mend: none
! mtu      too small
           mend: widen it
- mtu      not looked at: 2001:db8::6: no way
           there
- dns      nothing to look at

1 problem and 2 warnings on master-0, by 3 checks;
1 could not look, or had nothing to look at (-).
`},
		"a terminal too narrow for columns": {Style{Width: 20}, `
✓ config   /etc/http01-proxyd/config.yaml
✗ ruleset  chain input of table inet
           admin drops what is led to
           port 8888
           mend: open the port: tcp dport
           8888 accept
! ruleset  a name with an [31mescape and
           a newline
           mend: none
! mtu      too small
           mend: widen it
- mtu      not looked at: 2001:db8::6: no
           way there
- dns      nothing to look at

1 problem and 2 warnings on
master-0, by 3 checks; 1 could
not look, or had nothing to
look at (-).
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			if err := some().WriteText(&b, tt.style); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), b.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestColour(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := some().WriteText(&b, Style{Colour: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\x1b[32m✓\x1b[0m config", "\x1b[31m✗\x1b[0m ruleset", "\x1b[33m!\x1b[0m ruleset", "\x1b[2m-\x1b[0m dns"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("there is no %q", want)
		}
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	fine, problem := Result{Outcome: Fine}, Result{Outcome: Failed, Findings: []findings.Finding{{ID: findings.PortTaken, Level: findings.Problem}}}
	for name, tt := range map[string]struct {
		root    bool
		results []Result
		outcome Outcome
		want    string
		trace   []Hop
		advice  int
	}{
		"all well":     {true, []Result{fine, fine}, Fine, "All is well on a, by 2 checks.", nil, 0},
		"without root": {false, []Result{fine, {Outcome: Skipped}}, Fine, "All is well on a, by 1 check; 1 could not look, or had nothing to look at (-).", nil, 1},
		"without what matters": {
			true,
			[]Result{fine, {Name: "certificate", Outcome: Skipped}, {Name: "conntrack", Outcome: Skipped}, {Name: "ruleset", Outcome: Fine, Unseen: "a table"}},
			Fine,
			"Nothing wrong was found on a, where not all that matters could be looked at (certificate, ruleset), by 2 checks; 2 could not look, or had nothing to look at (-).", nil, 0,
		},
		"problems":         {true, []Result{problem, fine, problem}, Failed, "2 problems on a, by 3 checks.", nil, 0},
		"a warning":        {true, []Result{{Outcome: Warned, Findings: []findings.Finding{{ID: findings.VIPsShared, Level: findings.Warning}}}}, Warned, "1 warning on a, by 1 check.", nil, 0},
		"the worst counts": {true, []Result{{Outcome: Warned}, problem, fine}, Failed, "1 problem on a, by 3 checks.", nil, 0},
		"a challenge":      {true, []Result{fine}, Fine, "All is well on a, by 1 check.", []Hop{{Outcome: Fine}}, 0},
		"a challenge that does not get through": {
			true,
			[]Result{fine},
			Failed,
			"Nothing was found on a for which the challenge does not get through, by 1 check. The challenge does not get through: see where it ends (✗).",
			[]Hop{{Outcome: Fine}, {Outcome: Failed}},
			0,
		},
		"a problem and a challenge": {
			true, []Result{problem}, Failed, "1 problem on a, by 1 check. The challenge does not get through: see where it ends (✗).", []Hop{{Outcome: Failed}}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := (&host{name: "a", root: tt.root}).summed(tt.results, tt.trace)
			if r.Outcome != tt.outcome || r.Summary != tt.want || len(r.Advice) != tt.advice {
				t.Errorf("got %s %q %q", r.Outcome, r.Summary, r.Advice)
			}
		})
	}
}

// TestConsequences: what follows from another finding is not said beside it.
func TestConsequences(t *testing.T) {
	t.Parallel()
	unwell := findings.Find(findings.ServiceUnwell)
	unwell.Follows = []findings.ID{findings.IngressRefused}
	if got := causes([]Result{
		{Name: "ingress", Outcome: Failed, Findings: []findings.Finding{findings.Find(findings.IngressRefused)}},
		{Name: "self-check", Outcome: Failed, Findings: []findings.Finding{findings.Find(findings.DoorClosed)}},
		{Name: "service", Outcome: Failed, Findings: []findings.Finding{unwell}},
	}); got[0].Outcome != Failed || got[1].Outcome != Failed || got[2].Outcome != Skipped {
		t.Errorf("a consequence that could be a cause: %+v", got)
	}
	down, denies := findings.Find(findings.ServiceDown), findings.Find(findings.SandboxDenies)
	full := findings.Find(findings.ConntrackFull)
	if got := causes([]Result{
		{Name: "vip-holder", Outcome: Failed, Findings: []findings.Finding{findings.Find(findings.VIPLinkDown)}},
		{Name: "dns", Outcome: Failed, Findings: []findings.Finding{findings.Find(findings.DNSSilent)}},
	}); got[1].Outcome != Skipped {
		t.Errorf("with a link that is down: %+v", got)
	}
	drops, silent := findings.Find(findings.ConntrackDrops), findings.Find(findings.IngressTimeout)
	if got := causes([]Result{
		{Name: "ingress", Outcome: Failed, Findings: []findings.Finding{silent}},
		{Name: "conntrack", Outcome: Failed, Findings: []findings.Finding{drops}},
		{Name: "vips", Outcome: Failed, Findings: []findings.Finding{findings.Find(findings.VIPsUserManaged)}},
	}); got[0].Outcome != Skipped || got[1].Outcome != Failed || got[2].Outcome != Failed {
		t.Errorf("with a full table of connections: %+v", got)
	}
	got := causes([]Result{
		{Name: "one", Outcome: Failed, Findings: []findings.Finding{down}},
		{Name: "both", Outcome: Failed, Findings: []findings.Finding{full, down}},
		{Name: "cause", Outcome: Failed, Findings: []findings.Finding{denies}},
		{Name: "well", Outcome: Fine, Text: "well"},
	})
	want := []Result{
		{Name: "one", Outcome: Skipped, Text: `it follows from what the check "cause" has found`},
		{Name: "both", Outcome: Warned, Findings: []findings.Finding{full}},
		{Name: "cause", Outcome: Failed, Findings: []findings.Finding{denies}},
		{Name: "well", Outcome: Fine, Text: "well"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
