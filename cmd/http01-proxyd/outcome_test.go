// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestOneOutcome: text, page, document and exit code of a check have the same result. None has a mark of
// success if a check found something, or could not run.
func TestOneOutcome(t *testing.T) {
	t.Parallel()
	warning := result.Of(findings.New(findings.VIPsShared, nil))
	warning.Outcome = report.CheckWarning
	well, problem := result.Pass("well"), result.Of(findings.New(findings.PortInUse, nil))
	skipped := result.Skip("no time")
	skipped.Name = "dns"
	for name, tt := range map[string]struct {
		results []result.Result
		steps   []result.Step
		level   section.Level
		code    error
	}{
		"nothing found":      {[]result.Result{well}, nil, section.Good, nil},
		"a warning":          {[]result.Result{well, warning}, nil, section.Warning, nil},
		"a problem":          {[]result.Result{problem, warning, skipped}, nil, section.Bad, cli.ExitCode(cli.Unhealthy)},
		"not everything":     {[]result.Result{well, skipped}, nil, section.Warning, cli.ExitCode(cli.Unknown)},
		"nor with a warning": {[]result.Result{warning, skipped}, nil, section.Warning, cli.ExitCode(cli.Unknown)},
		"a challenge that fails": {
			[]result.Result{well},
			[]result.Step{{Step: "proxy", Outcome: report.CheckProblem}},
			section.Bad,
			cli.ExitCode(cli.Unhealthy),
		},
		"a challenge that succeeds": {
			[]result.Result{skipped},
			[]result.Step{{Step: "proxy", Outcome: report.CheckOK}},
			section.Warning,
			cli.ExitCode(cli.Unknown),
		},
	} {
		r := result.NewReport(result.Conditions{Host: "h", Privileged: true}, tt.results, tt.steps)
		var text, document, html strings.Builder
		for format, out := range map[string]*strings.Builder{cli.Text: &text, cli.JSON: &document, cli.HTML: &html} {
			w := checkWriter{cli.Output{Format: format}, false, t.TempDir() + "/none.sock", out}
			if err := w.write(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		if want := "\n" + tt.level.Sign() + " " + r.Summary; !strings.Contains(text.String(), want) {
			t.Errorf("%s: no %q in the text:\n%s", name, want, &text)
		}
		_, first, _ := strings.Cut(html.String(), `<section class="state `)
		if !strings.HasPrefix(first, string(tt.level)+`"`) {
			t.Errorf("%s: the page begins with %.40q, want %s", name, first, tt.level)
		}
		if want := `"outcome": "` + string(r.Outcome) + `"`; !strings.Contains(document.String(), want) {
			t.Errorf("%s: no %s in the document", name, want)
		}
		if got := cli.OfOutcome(r.Outcome); !errors.Is(got, tt.code) {
			t.Errorf("%s: exit code %v, want %v", name, got, tt.code)
		}
	}
}
