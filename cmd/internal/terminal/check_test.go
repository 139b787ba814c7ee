// SPDX-License-Identifier: Apache-2.0

package terminal_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/internal/docurl"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// checkReport is a report with a line of each kind.
func checkReport() result.Report {
	return result.NewReport(result.Conditions{Host: "master-0", Privileged: true}, []result.Result{
		{Name: "config", Outcome: report.CheckOK, Text: "/etc/http01-proxyd/config.yaml"},
		{Name: "ruleset", Outcome: report.CheckProblem, Findings: []findings.Finding{
			{
				ID: "packet-lost", Level: findings.Problem, Message: "chain input of table inet admin drops packets to port 8888",
				Remediation: "open the port: tcp dport 8888 accept",
			},
			{
				ID: "nftables-unsupported", Level: findings.Warning, Message: "a name with an \x1b[31mescape\nand a newline",
				Remediation: "none",
			},
		}},
		{Name: "mtu", Outcome: report.CheckWarning, NotChecked: "2001:db8::6: no way there", Findings: []findings.Finding{
			{ID: findings.PathMTUBlackHole, Level: findings.Warning, Message: "too small", Remediation: "widen it"},
		}},
		{Name: "dns", Outcome: report.CheckSkipped, Text: "nothing to look at"},
	}, nil)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		view  terminal.View
		quiet bool
		want  string
	}{
		"a file": {terminal.View{}, false, `
✓ config   /etc/http01-proxyd/config.yaml
✗ ruleset  [packet-lost] chain input of table inet admin drops packets to port 8888
           fix: open the port: tcp dport 8888 accept
! ruleset  [nftables-unsupported] a name with an  [31mescape and a newline
           fix: none
! mtu      [path-mtu-black-hole] too small
           fix: widen it
- mtu      not checked: 2001:db8::6: no way there
- dns      nothing to look at

✗ 1 problem and 2 warnings on master-0 (3 checks, 1 skipped).
`},
		"a narrow terminal": {terminal.View{Width: 50}, false, `
✓ config   /etc/http01-proxyd/config.yaml
✗ ruleset  [packet-lost] chain input of table inet
           admin drops packets to port 8888
           fix: open the port: tcp dport 8888
           accept
! ruleset  [nftables-unsupported] a name with an
           [31mescape and a newline
           fix: none
! mtu      [path-mtu-black-hole] too small
           fix: widen it
- mtu      not checked: 2001:db8::6: no way there
- dns      nothing to look at

✗ 1 problem and 2 warnings on master-0 (3 checks,
  1 skipped).
`},
		"findings only": {terminal.View{}, true, `
✗ ruleset  [packet-lost] chain input of table inet admin drops packets to port 8888
           fix: open the port: tcp dport 8888 accept
! ruleset  [nftables-unsupported] a name with an  [31mescape and a newline
           fix: none
! mtu      [path-mtu-black-hole] too small
           fix: widen it
`},
		"wide": {terminal.View{Wide: true}, false, `
✓ config   /etc/http01-proxyd/config.yaml (0.0 ms)
✗ ruleset  [packet-lost] chain input of table inet admin drops packets to port 8888
           fix: open the port: tcp dport 8888 accept
           see: ` + docurl.Findings + `ruleset.md#packet-lost
! ruleset  [nftables-unsupported] a name with an  [31mescape and a newline
           fix: none
           see: ` + docurl.Findings + `nftables.md#nftables-unsupported
! mtu      [path-mtu-black-hole] too small
           fix: widen it
           see: ` + docurl.Findings + `mtu.md#path-mtu-black-hole
- mtu      not checked: 2001:db8::6: no way there
- dns      nothing to look at (0.0 ms)

✗ 1 problem and 2 warnings on master-0 (3 checks, 1 skipped).
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			if err := terminal.Check(checkReport(), tt.quiet).Write(&b, tt.view); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), b.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestCheckColours: each outcome has its colour.
func TestCheckColours(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := terminal.Check(checkReport(), false).Write(&b, terminal.View{Colour: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\x1b[32m✓\x1b[0m config", "\x1b[31m✗\x1b[0m ruleset", "\x1b[33m!\x1b[0m ruleset",
		"\x1b[2m-\x1b[0m dns",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("missing %q", want)
		}
	}
}
