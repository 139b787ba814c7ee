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
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// TestChecksRunConcurrently: each check has its own timeout, the results are in the
// order of the list, and a check that ignores its context is abandoned.
func TestChecksRunConcurrently(t *testing.T) {
	t.Parallel()
	other := make(chan struct{})
	forever := make(chan struct{})
	t.Cleanup(func() { close(forever) })
	var seen []Progress
	got := runAll(t.Context(), &host{}, []check{
		{"first", time.Minute, func(context.Context, *host) Result { <-other; return okResult("well") }},
		{"second", time.Minute, func(context.Context, *host) Result { close(other); return okResult("well") }},
		{"bounded", time.Millisecond, func(ctx context.Context, _ *host) Result { <-ctx.Done(); return skippedResult("%v", ctx.Err()) }},
		{"hanging", time.Millisecond, func(context.Context, *host) Result { <-forever; return okResult("never") }},
	}, func(p Progress) { seen = append(seen, Progress{p.Done, p.Total, slices.Clone(p.Pending)}) })
	want := []Result{
		{Name: "first", Outcome: OK, Text: "well"},
		{Name: "second", Outcome: OK, Text: "well"},
		{Name: "bounded", Outcome: Skipped, Text: "context deadline exceeded"},
		{Name: "hanging", Outcome: Skipped, Text: "not finished within 1ms"},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Result{}, "DurationMs")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(seen) != 5 || seen[0].Done != 0 || seen[4].Done != 4 || len(seen[4].Pending) != 0 {
		t.Errorf("progress %v", seen)
	}
	if last := seen[3].Pending; len(last) != 1 || last[0] != "hanging" {
		t.Errorf("the last pending check is %v", last)
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
	if err := os.WriteFile(o.ConfigPath, []byte("vips: {keepalivedConfig: "+dir+"/keepalived.conf}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var seen []Progress
	r, err := Run(t.Context(), o, func(p Progress) { seen = append(seen, p) })
	if err != nil || r.Outcome != NotApplicable || r.DurationMs <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if want := []Progress{{Total: len(allChecks())}}; !cmp.Equal(want, seen) {
		t.Errorf("progress %+v", seen)
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
	seen := make(map[findings.ID]bool)
	at := 0
	for _, e := range findings.All() {
		i := slices.Index(names, e.Check)
		switch {
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
		if e.Symptom == "" || e.Message == "" || e.Remediation == "" || (e.Level != findings.Problem && e.Level != findings.Warning) {
			t.Errorf("%s is incomplete", e.ID)
		}
	}
}
