// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/vips"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestChecksRunConcurrently: each check has its own timeout, the results are in the
// order of the list, and a check that ignores its context is abandoned.
func TestChecksRunConcurrently(t *testing.T) {
	t.Parallel()
	other := make(chan struct{})
	forever := make(chan struct{})
	t.Cleanup(func() { close(forever) })
	var seen [][]string
	got := runAll(t.Context(), &observations{}, []check{
		{
			"first", "", needsNothing, time.Minute,
			func(context.Context, *observations) result.Result { <-other; return result.Pass("well") },
		},
		{
			"second", "", needsNothing, time.Minute,
			func(context.Context, *observations) result.Result { close(other); return result.Pass("well") },
		},
		{"bounded", "", needsNothing, time.Millisecond, func(ctx context.Context, _ *observations) result.Result {
			<-ctx.Done()
			return result.Skip("%v", ctx.Err())
		}},
		{
			"hanging", "", needsNothing, time.Millisecond,
			func(context.Context, *observations) result.Result { <-forever; return result.Pass("never") },
		},
	}, func(pending []string) { seen = append(seen, slices.Clone(pending)) })
	want := []result.Result{
		{Name: "first", Outcome: report.CheckOK, Text: "well"},
		{Name: "second", Outcome: report.CheckOK, Text: "well"},
		{Name: "bounded", Outcome: report.CheckSkipped, Text: "context deadline exceeded", Incomplete: true},
		{Name: "hanging", Outcome: report.CheckSkipped, NotChecked: "not completed within 1ms", Incomplete: true},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(result.Result{}, "DurationMs")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(seen) != 5 || len(seen[0]) != 4 || !slices.Equal(seen[3], []string{"hanging"}) || len(seen[4]) != 0 {
		t.Errorf("progress %v", seen)
	}
}

// TestTimeoutOfRun: checks that the time for the whole run ends are reported as not
// completed. Results before that stay.
func TestTimeoutOfRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	got := runAll(ctx, &observations{}, []check{
		{"early", "", needsNothing, time.Minute, func(context.Context, *observations) result.Result {
			return result.Found(findings.ClockOffset, nil)
		}},
		{"late", "", needsNothing, time.Minute, func(ctx context.Context, _ *observations) result.Result {
			cancel()
			<-ctx.Done()
			return result.Skip("%v", ctx.Err())
		}},
	}, func([]string) {})
	r := result.NewReport(result.Conditions{}, got, nil)
	if got[0].Findings == nil || got[1].NotChecked != "not completed within the time for all checks (--timeout)" ||
		!slices.Equal(r.Incomplete, []string{"late"}) {
		t.Errorf("%+v", got)
	}
}

// TestSelectedChecks: --only takes the names of checks.
func TestSelectedChecks(t *testing.T) {
	t.Parallel()
	h := host{}
	h.Only = []string{"dns", "vip-holder"}
	var names []string
	for _, c := range h.selectedChecks() {
		names = append(names, c.name)
	}
	if diff := cmp.Diff([]string{"vip-holder", "dns"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRejectedConfiguration: without an accepted configuration, what the rejected one
// contains is not reported as absent.
func TestRejectedConfiguration(t *testing.T) {
	t.Parallel()
	h := host{rejected: "configuration rejected"}
	h.VIPs.Err = vips.ErrNoNode
	o := &observations{host: h}
	for _, c := range allChecks() {
		if c.needs == needsNothing {
			continue
		}
		if r := c.runWithTimeout(t.Context(), o); r.Outcome != report.CheckSkipped ||
			r.NotChecked != "configuration rejected" ||
			r.Text != "" {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
	o.VIPs.Err = nil
	if reason := o.unmetNeed(check{needs: needsVIPs}); reason != "" {
		t.Errorf("the VIPs are known, but %s", reason)
	}
}

// TestProgressStartsAtOnce: progress is reported before the first check starts, and the
// report contains the total duration.
func TestProgressStartsAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := Options{HostPaths: config.HostPaths{
		ConfigPath: filepath.Join(dir, "config.yaml"), StateDir: dir, StatusSocket: filepath.Join(dir, "status.sock"),
		ManifestDir: dir, DisabledManifestDir: dir,
	}}
	if err := os.WriteFile(o.ConfigPath, []byte("vips: {keepalivedConfig: "+dir+"/keepalived.conf}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), o, func(pending []string) { t.Errorf("progress %q", pending) })
	if err != nil || r.Outcome != report.CheckNotApplicable || r.DurationMs <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestFindingsNameChecks: each entry names an existing check, in the order of the
// checks, and is complete.
func TestFindingsNameChecks(t *testing.T) {
	t.Parallel()
	var names []string
	for _, c := range allChecks() {
		if slices.Contains(names, c.name) {
			t.Errorf("two checks have the name %s", c.name)
		}
		names = append(names, c.name)
	}
	if diff := cmp.Diff(names, findings.Checks()); diff != "" {
		t.Errorf("names for --only (-checks +findings):\n%s", diff)
	}
	seen := make(map[findings.ID]bool)
	at := 0
	for _, e := range findings.All() {
		i := slices.Index(names, e.Check)
		switch {
		case e.ClusterOnly:
			i = len(names)
		case i < 0:
			t.Errorf("%s: unknown check %q", e.ID, e.Check)
		case i < at:
			t.Errorf("%s follows an entry of a later check", e.ID)
		}
		at = max(at, i)
		if seen[e.ID] {
			t.Errorf("%s is listed twice", e.ID)
		}
		seen[e.ID] = true
		if e.Symptom == "" || e.Message == "" || e.Remediation == "" || (e.Level != findings.Problem &&
			e.Level != findings.Warning) {
			t.Errorf("%s is incomplete", e.ID)
		}
	}
}
