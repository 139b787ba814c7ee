// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTable holds that every folder of the table is a package with the tests that the table
// names.
func TestTable(t *testing.T) {
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, m := range modules() {
		packs, err := list(t.Context(), root, m)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range packs {
			dirs = append(dirs, p.dir)
			if _, err := table()[p.dir].selectTests(p, setMain); err != nil {
				t.Error(err)
			}
		}
	}
	for dir := range table() {
		if !slices.Contains(dirs, dir) {
			t.Errorf("%s has no tests: correct the table", dir)
		}
	}
}

// TestFuzzers holds that the list of fuzzers has each fuzz test of the repository, that
// prepareFuzzers finds its package, and that its corpus is in the checkout.
func TestFuzzers(t *testing.T) {
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	var listed, found, corpora []string
	for _, f := range fuzzers() {
		listed = append(listed, f.dir+" "+f.name)
	}
	for _, m := range modules() {
		packs, err := list(t.Context(), root, m)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range packs {
			for _, name := range p.tests {
				if !strings.HasPrefix(name, "Fuzz") {
					continue
				}
				if found = append(found, p.dir+" "+name); m.dir != "." {
					t.Errorf("%s %s: prepareFuzzers compiles fuzz tests of the service's module only", p.dir, name)
				}
			}
			inputs, err := filepath.Glob(filepath.Join(root, p.dir, "testdata", "fuzz", "*", "*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, input := range inputs {
				corpora = append(corpora, p.dir+" "+filepath.Base(filepath.Dir(input)))
			}
		}
	}
	slices.Sort(listed)
	slices.Sort(found)
	slices.Sort(corpora)
	if diff := cmp.Diff(found, listed); diff != "" {
		t.Errorf("correct the list of fuzzers in table.go (-repository +list):\n%s", diff)
	}
	if diff := cmp.Diff(found, slices.Compact(corpora)); diff != "" {
		t.Errorf("folders testdata/fuzz/NAME with inputs of a fuzzer (-fuzz tests +folders):\n%s", diff)
	}
}
