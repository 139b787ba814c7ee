// SPDX-License-Identifier: Apache-2.0

package manual_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/manual"
)

// TestReference: docs/reference/cli has the help of every command, which make docs writes,
// and each of these commands has a man page.
func TestReference(t *testing.T) {
	t.Parallel()
	for program, tt := range map[string]struct{ documents, section string }{
		"http01-proxyd": {"http01-proxyd*.md", "8"},
		"oc-http01":     {"oc_http01*.md", "1"},
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			got := read(t, filepath.Join("../../../docs/reference/cli", tt.documents))
			want := generate(t, program, "markdown")
			if len(want) < 5 {
				t.Errorf("only %d documents are generated", len(want))
			}
			if diff := cmp.Diff(got, want); diff != "" {
				t.Errorf("docs/reference/cli is not current, run make docs (-file +help):\n%s", diff)
			}
			pages := generate(t, program, "man")
			for document := range want {
				name := strings.TrimSuffix(strings.Replace(document, "oc_", "oc-", 1), ".md")
				if page := strings.ReplaceAll(name, "_", "-") + "." + tt.section; pages[page] == "" {
					t.Errorf("no man page %s", page)
				}
			}
			if len(pages) != len(want) {
				t.Errorf("%d man pages, and %d documents", len(pages), len(want))
			}
			expectSections(t, pages[program+"."+tt.section], strings.ToUpper(program), tt.section)
		})
	}
}

// TestManPage: the page of a program has its files and exit codes.
func TestManPage(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	dir := t.TempDir()
	root := cli.Root(&cobra.Command{
		Use: "tool", Short: "a tool",
		Annotations: map[string]string{cli.ManSection: "1", cli.ManFiles: "/etc/tool: the file"},
	})
	if err := manual.WriteMan(root, dir); err != nil {
		t.Fatal(err)
	}
	page := read(t, filepath.Join(dir, "tool.1"))["tool.1"]
	expectSections(t, page, "TOOL", "1")
	for _, part := range []string{
		".SH FILES", "\\fB/etc/tool\\fP\n\tthe file", "\\fB2\\fP\n\tthe command line is wrong",
	} {
		if !strings.Contains(page, part) {
			t.Errorf("lacks %q:\n%s", part, page)
		}
	}
	if err := manual.WriteMarkdown(root, dir); err != nil || read(t, filepath.Join(dir, "tool*.md"))["tool.md"] == "" {
		t.Errorf("no document: %v", err)
	}
}

func expectSections(t *testing.T, page, title, section string) {
	t.Helper()
	head := `.TH "` + title + `" "` + section + `" "Nov 2023"`
	for _, part := range []string{head, ".SH NAME", ".SH SYNOPSIS", ".SH EXIT STATUS", ".SH SEE ALSO"} {
		if !strings.Contains(page, part) {
			t.Errorf("the man page of the program lacks %q:\n%s", part, page)
		}
	}
}

// generate returns the documents that a program with the tag docs writes.
func generate(t *testing.T, program, form string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	c := exec.CommandContext(t.Context(), "go", "run", "-tags", "docs", "../../"+program, form, dir)
	c.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return read(t, filepath.Join(dir, "*"))
}

// read returns files by their names.
func read(t *testing.T, pattern string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	texts := make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(file)] = string(text)
	}
	return texts
}
