// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocumentedTests holds that each test that a document names exists, in the folders
// that follow the name in parentheses.
func TestDocumentedTests(t *testing.T) {
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	folders := map[string][]string{} // by test
	for _, m := range modules() {
		packages, err := list(t.Context(), root, m, "-tags=mco") // also the tests of `make mco`
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range packages {
			for _, name := range p.tests {
				folders[name] = append(folders[name], p.dir)
			}
		}
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)(?:/[^`]*)?`(?: \\(([^)]*/[^)]*)\\))?")
	found := 0
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".md") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			found++
			if len(folders[m[1]]) == 0 {
				t.Errorf("%s names %s, which does not exist", path, m[1])
				continue
			}
			for folder := range strings.SplitSeq(m[2], ", ") {
				if folder != "" && !slices.Contains(folders[m[1]], folder) {
					t.Errorf("%s: %s has no %s; it is in %s", path, folder, m[1], strings.Join(folders[m[1]], ", "))
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 40 {
		t.Errorf("%d names of tests found in docs, want at least 40", found)
	}
}
