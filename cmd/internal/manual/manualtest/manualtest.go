// SPDX-License-Identifier: Apache-2.0

package manualtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/manual"
)

// Reference fails unless docs/reference/cli has the help of every command. pattern names
// the program's files there. make docs writes them.
func Reference(t *testing.T, root *cobra.Command, pattern string) {
	t.Helper()
	dir := t.TempDir()
	if err := manual.WriteMarkdown(root, dir); err != nil {
		t.Fatal(err)
	}
	got, want := readPages(t, filepath.Join("../../docs/reference/cli", pattern)), readPages(t, filepath.Join(dir, "*.md"))
	if len(want) < 5 {
		t.Errorf("only %d documents are generated", len(want))
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("docs/reference/cli is not current, run make docs (-file +help):\n%s", diff)
	}
}

// ManPages fails unless each command that is listed has a man page in this section. It
// sets an environment variable, so the test cannot be parallel.
func ManPages(t *testing.T, root *cobra.Command, program, section string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	if err := manual.WriteMan(root, dir); err != nil {
		t.Fatal(err)
	}
	pages := readPages(t, filepath.Join(dir, program+"*."+section))
	for _, c := range root.Commands() {
		page := pages[program+"-"+c.Name()+"."+section]
		if (page != "") != c.IsAvailableCommand() {
			t.Errorf("man page of %s: %d bytes:\n%s", c.Name(), len(page), page)
		}
	}
	main := pages[program+"."+section]
	title := `.TH "` + strings.ToUpper(program) + `" "` + section + `" "Nov 2023"`
	for _, part := range []string{title, ".SH NAME", ".SH SYNOPSIS", ".SH EXIT STATUS", ".SH SEE ALSO"} {
		if !strings.Contains(main, part) {
			t.Errorf("the man page of the program lacks %q:\n%s", part, main)
		}
	}
}

// readPages returns files by their names.
func readPages(t *testing.T, pattern string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	pages := make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pages[filepath.Base(file)] = string(text)
	}
	return pages
}
