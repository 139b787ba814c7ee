// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	if behaviour := os.Getenv(fakeProgramVariable); behaviour != "" {
		os.Exit(fakeTestProgram(behaviour))
	}
	os.Exit(m.Run())
}

// repository returns the root of the checkout. Tests run in their package's folder.
func repository() (string, error) { return filepath.Abs("../../..") }

// fakeProgramVariable selects the behaviour of this binary as a test program that the
// runner starts.
const fakeProgramVariable = "HTTP01_SUITES_TEST_STAND_IN"

// fakeTestProgram prints the output of a test program.
func fakeTestProgram(behaviour string) int {
	switch behaviour {
	case "passes":
		os.Stdout.WriteString("=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\n")
		return 0
	case "fails":
		os.Stdout.WriteString("=== RUN   TestA\n    a_test.go:1: the reason\n--- FAIL: TestA (0.00s)\nFAIL\n")
		return 1
	case "panics after a failure":
		os.Stdout.WriteString("=== RUN   TestA\n--- FAIL: TestA (0.00s)\n=== RUN   TestB\npanic: the reason\n")
		return 2
	default: // runs nothing
		os.Stdout.WriteString("testing: warning: no tests to run\nPASS\n")
		return 0
	}
}

// TestRunner starts test programs that end in different ways. A program passes only when it
// runs all of its tests.
func TestRunner(t *testing.T) {
	for _, tt := range []struct {
		behaviour              string
		tests                  []string
		passed, failed, broken int
		prints                 string
	}{
		{"passes", []string{"TestA"}, 1, 0, 0, "ok    ."},
		{"passes", []string{"TestA", "TestB"}, 1, 1, 1, "tests without a result: TestB"},
		{"fails", []string{"TestA"}, 0, 1, 0, "the reason"},
		{"panics after a failure", []string{"TestA", "TestB"}, 0, 2, 1, "panic: the reason"},
		{"runs nothing", []string{"TestA"}, 0, 1, 1, "no tests to run"},
	} {
		t.Run(tt.behaviour, func(t *testing.T) {
			t.Setenv(fakeProgramVariable, tt.behaviour)
			var out bytes.Buffer
			rep := newReport(&out)
			r := &runner{root: ".", tmp: t.TempDir(), id: "fake-" + tt.behaviour}
			p := &process{
				pack: &testPackage{dir: "."}, binary: "/proc/self/exe", tests: tt.tests, timeout: defaultTimeout, group: 1,
			}
			rep.expect(p)
			rep.add(r.run(t.Context(), p))
			if rep.passed != tt.passed || rep.failed != tt.failed || rep.broken != tt.broken ||
				!strings.Contains(out.String(), tt.prints) {
				t.Errorf("%d passed, %d failed, %d broken\n%s", rep.passed, rep.failed, rep.broken, out.String())
			}
			for name, reason := range rep.failures {
				if name != ". TestA" && name != ". TestB" || len(reason) == 0 {
					t.Errorf("failure %q: %q", name, reason)
				}
			}
			if err := rep.failure(); (err == nil) != (tt.failed+tt.broken == 0) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
