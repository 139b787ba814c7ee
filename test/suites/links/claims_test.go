// SPDX-License-Identifier: Apache-2.0

package links

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// namedTest is a test in a document: `TestName`, or `TestName/case`, with its folder.
	// Several tests may share the folder behind the last of them.
	namedTest  = regexp.MustCompile("`((?:Test|Fuzz)\\w+)(?:/[^`]*)?`")
	testFolder = regexp.MustCompile(`\(((?:internal|pkg|test|cmd|build)[\w./, -]*)\)`)
)

// TestClaimsHaveTests: each test that the documents for security reviewers name exists in the
// folder that follows it, or in test/suites/hostile.
func TestClaimsHaveTests(t *testing.T) {
	for _, document := range []string{
		"docs/internals/threat-model.md", "docs/internals/system-calls.md",
		"docs/internals/sandbox-matrix.md",
	} {
		text, err := os.ReadFile(filepath.Join(repository, document))
		if err != nil {
			t.Fatal(err)
		}
		names := 0
		for line := range strings.Lines(string(text)) {
			for _, m := range namedTest.FindAllStringSubmatchIndex(line, -1) {
				names++
				name, folders := line[m[2]:m[3]], foldersOf(line, m[1])
				for _, folder := range folders {
					if !hasTest(t, folder, name) {
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
// it is in, or test/suites/hostile. A folder in backticks after " in " counts too.
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
	return []string{"test/suites/hostile"}
}

func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "func "+name+"(") {
			return true
		}
	}
	return false
}
