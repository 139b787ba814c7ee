// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTestsIn(t *testing.T) {
	got, err := testsIn("p_test.go", "package p\nconst text = `\nfunc TestInText() {}\n`\n"+`
func TestMain(m *testing.M) {}
func TestA(t *testing.T) {}
func FuzzB(f *testing.F) {}
func ExampleC() {}
func helper(t *testing.T) {}
func Testhelper() {}
func (s *suite) TestMethod() {}
`)
	if diff := cmp.Diff([]string{"TestA", "FuzzB", "ExampleC"}, got); diff != "" || err != nil {
		t.Errorf("tests (-want +got), error %v:\n%s", err, diff)
	}
}

func TestSplit(t *testing.T) {
	tests := []string{"A", "B", "C", "D", "E"}
	for _, tt := range []struct {
		name string
		s    suite
		want []string
	}{
		{"one process", suite{}, []string{"A B C D E"}},
		{"the long test has a process of its own", suite{processes: 2, seconds: map[string]int{"D": 60}}, []string{"D", "A B C E"}},
		{"equal tests are spread", suite{processes: 2}, []string{"A C E", "B D"}},
		{"a process for each", suite{each: true}, []string{"A", "B", "C", "D", "E"}},
		{"tests that belong together", suite{each: true, together: []string{"B", "E"}}, []string{"B E", "A", "C", "D"}},
		{"no more processes than tests", suite{processes: 9}, []string{"A", "B", "C", "D", "E"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, group := range tt.s.split(tests) {
				got = append(got, strings.Join(group, " "))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("processes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSelectTests(t *testing.T) {
	p := &testPackage{dir: "test/p", tests: []string{"TestA", "TestB"}}
	for _, tt := range []struct {
		name string
		s    suite
		set  string
		want []string
		err  string
	}{
		{"everything", suite{main: []string{"TestA"}}, setAll, []string{"TestA", "TestB"}, ""},
		{"the main paths", suite{main: []string{"TestA"}}, setMain, []string{"TestA"}, ""},
		{"a package without a choice", suite{}, setMain, []string{"TestA", "TestB"}, ""},
		{"a package that is left out", suite{onlyAll: true}, setMain, nil, ""},
		{"a renamed test", suite{main: []string{"TestC"}}, setAll, nil, "has no test TestC"},
		{"the time of a renamed test", suite{seconds: map[string]int{"TestC": 9}}, setAll, nil, "has no test TestC"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.s.selectTests(p, tt.set)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("tests (-want +got), error %v:\n%s", err, diff)
			}
		})
	}
}

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
