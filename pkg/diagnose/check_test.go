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

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// TestChecksRunSideBySide: each has its own limit, the order is that of the list,
// and one that heeds nothing is left behind.
func TestChecksRunSideBySide(t *testing.T) {
	t.Parallel()
	other := make(chan struct{})
	forever := make(chan struct{})
	t.Cleanup(func() { close(forever) })
	var seen []Progress
	got := runAll(t.Context(), &host{}, []check{
		{"first", time.Minute, func(context.Context, *host) Result { <-other; return fine("well") }},
		{"second", time.Minute, func(context.Context, *host) Result { close(other); return fine("well") }},
		{"bounded", time.Millisecond, func(ctx context.Context, _ *host) Result { <-ctx.Done(); return skipped("%v", ctx.Err()) }},
		{"deaf", time.Millisecond, func(context.Context, *host) Result { <-forever; return fine("never") }},
	}, func(p Progress) { seen = append(seen, Progress{p.Over, p.All, slices.Clone(p.Waiting)}) })
	want := []Result{
		{Name: "first", Outcome: Fine, Text: "well"},
		{Name: "second", Outcome: Fine, Text: "well"},
		{Name: "bounded", Outcome: Skipped, Text: "context deadline exceeded"},
		{Name: "deaf", Outcome: Skipped, Text: "it did not end within 1ms"},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Result{}, "Took")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(seen) != 5 || seen[0].Over != 0 || seen[4].Over != 4 || len(seen[4].Waiting) != 0 {
		t.Errorf("progress %v", seen)
	}
	if last := seen[3].Waiting; len(last) != 1 || last[0] != "deaf" {
		t.Errorf("the last to wait for is %v", last)
	}
}

// TestProgressFromTheBeginning: whoever waits sees that something happens before
// the first check begins, and how long it all took.
func TestProgressFromTheBeginning(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := Options{
		ConfigPath: filepath.Join(dir, "config.yaml"), StateDir: dir, StatusSocket: filepath.Join(dir, "status.sock"),
		Manifests: dir, DisabledManifests: dir,
	}
	if err := os.WriteFile(o.ConfigPath, []byte("vips: {keepalivedConfig: "+dir+"/keepalived.conf}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var seen []Progress
	r, err := Run(t.Context(), o, func(p Progress) { seen = append(seen, p) })
	if err != nil || r.Outcome != Nothing || r.Took <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if want := []Progress{{All: len(checks())}}; !cmp.Equal(want, seen) {
		t.Errorf("progress %+v", seen)
	}
}

// TestCatalogueAndChecksAgree: each entry names a check that there is, in the
// order of the checks, and says what an admin needs.
func TestCatalogueAndChecksAgree(t *testing.T) {
	t.Parallel()
	var names []string
	for _, c := range checks() {
		if slices.Contains(names, c.name) {
			t.Errorf("two checks are called %s", c.name)
		}
		names = append(names, c.name)
	}
	seen := make(map[findings.ID]bool)
	at := 0
	for _, e := range findings.All() {
		i := slices.Index(names, e.Check)
		switch {
		case i < 0:
			t.Errorf("%s: there is no check %q", e.ID, e.Check)
		case i < at:
			t.Errorf("%s stands behind an entry of a later check", e.ID)
		}
		at = max(at, i)
		if seen[e.ID] {
			t.Errorf("%s is there twice", e.ID)
		}
		seen[e.ID] = true
		if e.Symptom == "" || e.Says == "" || e.Mend == "" || (e.Level != findings.Problem && e.Level != findings.Warning) {
			t.Errorf("%s is not complete", e.ID)
		}
	}
}
