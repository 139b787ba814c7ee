// SPDX-License-Identifier: Apache-2.0

package links

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// namedTest is a test in a document: `TestName`, or `TestName/case`. A folder follows names that
	// several packages have. Several tests may share the folder behind the last of them.
	namedTest  = regexp.MustCompile("`((?:Test|Fuzz)\\w+)(?:/[^`]*)?`")
	testFolder = regexp.MustCompile(`\(((?:internal|pkg|test|cmd|build)[\w./, -]*)\)`)
	goTest     = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
)

// TestClaimsHaveTests: each test that the documents for security reviewers name exists in the
// folders that follow it. Without a folder, exactly one package has a test of that name.
func TestClaimsHaveTests(t *testing.T) {
	tests := testsByName(t)
	for _, document := range []string{
		"docs/internals/threat-model.md", "docs/internals/system-calls.md",
		"docs/internals/sandbox-matrix.md", "docs/internals/scorecard.md",
	} {
		text, err := os.ReadFile(filepath.Join(repository, document))
		if err != nil {
			t.Fatal(err)
		}
		names := 0
		for line := range strings.Lines(string(text)) {
			for _, m := range namedTest.FindAllStringSubmatchIndex(line, -1) {
				names++
				name := line[m[2]:m[3]]
				folders := foldersOf(line, m[1])
				if len(folders) == 0 && len(tests[name]) != 1 {
					t.Errorf("%s: %s is a test of %q, want one package", document, name, tests[name])
				}
				for _, folder := range folders {
					if !slices.Contains(tests[name], folder) {
						t.Errorf("%s: %s has no %s", document, folder, name)
					}
				}
			}
		}
		if names == 0 {
			t.Errorf("%s names no test", document)
		}
	}
}

// foldersOf returns the folders in the parentheses that follow a name, or the list of names that
// it is in. A folder in backticks after " in " counts too.
func foldersOf(line string, end int) []string {
	rest := line[end:]
	if m := testFolder.FindStringSubmatchIndex(rest); m != nil {
		if strings.Trim(namedTest.ReplaceAllString(rest[:m[0]], ""), ", ") == "" {
			return strings.Split(rest[m[2]:m[3]], ", ")
		}
	}
	if folder, found := strings.CutPrefix(rest, " in `"); found {
		name, _, _ := strings.Cut(folder, "`")
		return []string{name}
	}
	return nil
}

// testsByName returns the folders that have a test or a fuzzer, by its name.
func testsByName(t *testing.T) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	for _, file := range tracked(t) {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(repository, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range goTest.FindAllSubmatch(text, -1) {
			name := string(m[1])
			if folder := path.Dir(file); !slices.Contains(all[name], folder) {
				all[name] = append(all[name], folder)
			}
		}
	}
	return all
}
