// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

var update = flag.Bool("update", false, "write docs/troubleshooting.md")

type page struct {
	Symptoms []symptom
	Checks   []section
}

type symptom struct {
	Text    string
	Entries []findings.Entry
}

type section struct {
	Name    string
	Entries []paragraph
}

type paragraph struct {
	findings.Entry

	Printed string // output of check or the journal, with placeholders
}

// TestTroubleshooting: docs/troubleshooting.md matches the findings. `make docs` writes
// it.
func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "troubleshooting.md.tmpl"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := template.Must(template.New("").Parse(string(text))).Execute(&b, newPage(t)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "docs", "troubleshooting.md")
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	there, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(there)); diff != "" {
		t.Errorf("docs/troubleshooting.md is outdated; run make docs (-want +got):\n%s", diff)
	}
}

func newPage(t *testing.T) page {
	t.Helper()
	var p page
	for _, e := range findings.All() {
		i := slices.IndexFunc(p.Symptoms, func(s symptom) bool { return s.Text == e.Symptom })
		if i < 0 {
			i = len(p.Symptoms)
			p.Symptoms = append(p.Symptoms, symptom{Text: e.Symptom})
		}
		p.Symptoms[i].Entries = append(p.Symptoms[i].Entries, e)
		if n := len(p.Checks); n == 0 || p.Checks[n-1].Name != e.Check {
			p.Checks = append(p.Checks, section{Name: e.Check})
		}
		at := &p.Checks[len(p.Checks)-1]
		at.Entries = append(at.Entries, paragraph{e, renderFinding(t, e)})
	}
	return p
}

func renderFinding(t *testing.T, e findings.Entry) string {
	t.Helper()
	f := findings.New(e.ID, nil)
	if e.JournalOnly {
		return f.String() + "\n"
	}
	var text strings.Builder
	r := Report{Checks: []Result{{Name: e.Check, Findings: []findings.Finding{f}}}}
	if err := r.WriteText(&text, TextOptions{Width: 110}); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(text.String()) + "\n"
}
