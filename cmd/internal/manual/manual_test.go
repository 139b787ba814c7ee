// SPDX-License-Identifier: Apache-2.0

package manual_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/manual"
)

// TestReference: docs/reference/cli has the reference of each program, which make docs writes,
// and each command of it has a man page that man formats without a warning.
func TestReference(t *testing.T) {
	t.Parallel()
	for program, tt := range map[string]struct{ document, section string }{
		"http01-proxyd": {"http01-proxyd", "8"},
		"oc-http01":     {"oc_http01", "1"},
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			got := read(t, "../../../docs/reference/cli/"+tt.document+"*.md")
			want := generate(t, program, "markdown")
			if diff := cmp.Diff(got, want); diff != "" {
				t.Errorf("docs/reference/cli is not current, run make docs (-file +help):\n%s", diff)
			}
			pages := generate(t, program, "man")
			commands := regexp.MustCompile(`(?m)^## (`+strings.Replace(tt.document, "_", " ", 1)+` [a-z]+)$`).FindAllStringSubmatch(
				want[tt.document+".md"], -1)
			for _, m := range commands {
				page := strings.ReplaceAll(m[1], " ", "-") + "." + tt.section
				if pages[page] == "" {
					t.Errorf("no man page %s", page)
				}
			}
			if len(commands) < 5 || len(pages) != len(commands)+1 {
				t.Errorf("%d man pages, and %d commands in the document", len(pages), len(commands))
			}
			for name, page := range pages {
				expectFormatted(t, name, page)
			}
			expectSections(t, pages[program+"."+tt.section], strings.ToUpper(program), tt.section)
		})
	}
}

// TestEnvironment: the man page of the host program lists each variable that its code reads,
// except the variables that the installer's unit sets.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	page := generate(t, "http01-proxyd", "man")["http01-proxyd.8"]
	_, environment, _ := strings.Cut(page, ".SH ENVIRONMENT")
	environment, _, _ = strings.Cut(environment, ".SH ")
	variable := regexp.MustCompile(`os\.Getenv\("([A-Z_]+)"\)`)
	found := 0
	for _, folder := range []string{"cmd/http01-proxyd", "cmd/internal/cli", "internal", "pkg"} {
		err := filepath.WalkDir(filepath.Join("../../..", folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range variable.FindAllStringSubmatch(string(text), -1) {
				found++
				if !strings.Contains(environment, m[1]) {
					t.Errorf("%s reads %s, which ENVIRONMENT does not have:\n%s", path, m[1], environment)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 8 {
		t.Errorf("only %d reads found", found)
	}
}

// TestConfigurationPage: http01-proxyd.yaml(5) has each key of docs/configuration.md, and the
// defaults, and man formats it without a warning.
func TestConfigurationPage(t *testing.T) {
	t.Parallel()
	name := "http01-proxyd.yaml.5"
	path := filepath.Join(t.TempDir(), name)
	run(t, "http01-proxyd", "file", "../../../docs/configuration.md", path)
	page := read(t, path)[name]
	text := expectFormatted(t, name, page)
	for _, part := range []string{
		"HTTP01-PROXYD.YAML(5)", "NAME", "http01-proxyd.yaml - configuration of http01-proxyd",
		"SYNOPSIS", "/etc/http01-proxyd/config.yaml", "DESCRIPTION", "VIPS", "upstream.verifyNames", "verifyNames: []",
		"limits.perSource (default 256)\n", "perSource: 256", "SEE ALSO", "http01-proxyd(8)",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("lacks %q:\n%s", part, text)
		}
	}
	if strings.Contains(text, "](") || strings.Contains(text, ".md") {
		t.Errorf("has links to documents:\n%s", text)
	}
}

// expectFormatted expects that man formats a page without a warning, and returns the text.
func expectFormatted(t *testing.T, name, page string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "man", "--warnings", "--local-file", path)
	c.Env = append(os.Environ(), "MANWIDTH=200", "MAN_KEEP_FORMATTING=", "LC_ALL=C.UTF-8", "MANROFFOPT=-c")
	var warnings strings.Builder
	c.Stderr = &warnings
	out, err := c.Output()
	if err != nil || warnings.Len() > 0 {
		t.Errorf("%s: %v\n%s", name, err, warnings.String())
	}
	return regexp.MustCompile(`.\x08`).ReplaceAllString(string(out), "")
}

// TestManPage: the page of a program has its files and exit codes.
func TestManPage(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	dir := t.TempDir()
	root := cli.Root(&cobra.Command{
		Use: "tool", Short: "a tool",
		Annotations: map[string]string{
			cli.ManSection: "1", cli.ManFiles: "/etc/tool: the file",
			cli.ManEnvironment: "NO_COLOR: no colours", cli.ManSignals: "SIGHUP: ends it",
		},
	})
	if err := manual.WriteMan(root, dir); err != nil {
		t.Fatal(err)
	}
	page := read(t, filepath.Join(dir, "tool.1"))["tool.1"]
	expectSections(t, page, "TOOL", "1")
	for _, part := range []string{
		".SH FILES", "\\fB/etc/tool\\fP\nthe file", "\\fB2\\fP\nthe command line is wrong",
		".SH ENVIRONMENT", "\\fBNO_COLOR\\fP\nno colours", ".SH SIGNALS", "\\fBSIGHUP\\fP\nends it",
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
	for _, part := range []string{
		head, ".SH NAME", ".SH SYNOPSIS", ".SH EXIT STATUS", ".SH ENVIRONMENT", ".SH SIGNALS", ".SH SEE ALSO",
	} {
		if !strings.Contains(page, part) {
			t.Errorf("the man page of the program lacks %q:\n%s", part, page)
		}
	}
}

// generate returns the documents that a program with the tag docs writes.
func generate(t *testing.T, program, form string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	run(t, program, form, dir)
	return read(t, filepath.Join(dir, "*"))
}

// run runs a program with the tag docs.
func run(t *testing.T, program string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", append([]string{"run", "-tags", "docs", "../../" + program}, args...)...)
	c.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
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
