// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReport(t *testing.T) {
	events, err := readEvents(strings.NewReader(`{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":3}
{"Action":"output","Package":"p","Test":"TestB","Output":"why it failed\n"}
{"Action":"output","Package":"p","Test":"TestB/one","Output":"    b_test.go:1: why one failed\n"}
{"Action":"fail","Package":"p","Test":"TestB/one","Elapsed":1}
{"Action":"fail","Package":"p","Test":"TestB","Elapsed":1}
{"Action":"output","Package":"p","Test":"TestC","Output":"why it was skipped\n"}
{"Action":"skip","Package":"p","Test":"TestC"}
`))
	if err != nil {
		t.Fatal(err)
	}
	one := &process{pack: &testPackage{dir: "pkg/p"}}
	two := &process{pack: &testPackage{dir: "pkg/p"}}
	three := &process{pack: &testPackage{dir: "pkg/r"}, tests: []string{"TestE", "TestF"}}
	fuzz := fuzzer{"pkg/q", "FuzzQ", "10x"}.process(&testPackage{dir: "pkg/q"}, "q.test", "fuzz")
	var out strings.Builder
	r := newReport(&out)
	begin := time.Now()
	for _, p := range []*process{one, two, three, fuzz} {
		r.expect(p)
	}
	r.add(result{process: one, events: events, err: errors.New("exit status 1"), begin: begin, wall: 2 * time.Second, cpu: time.Second})
	r.add(result{
		process: two, events: []event{{Action: "output", Test: "TestD", Output: "panic: what it was\n"}},
		err: errors.New("exit status 2"), begin: begin.Add(time.Second), wall: 3 * time.Second,
	})
	r.add(result{
		process: three, events: []event{{Action: "output", Test: "TestE", Output: "    e_test.go:1: step\n"}, {Action: "output", Test: "TestE", Output: "panic: test timed out after 1m0s\n"}},
		err: errors.New("exit status 2"), begin: begin, wall: time.Second,
	})
	r.add(result{process: fuzz, begin: begin, wall: time.Second})
	r.printSummary()
	want := `pkg/p TestB/one
    b_test.go:1: why one failed
pkg/p TestB
why it failed
pkg/p TestC
why it was skipped
pkg/p: exit status 2
panic: what it was
FAIL  pkg/p                               4.0s
pkg/r: exit status 2
tests without a result: TestE, TestF
    e_test.go:1: step
panic: test timed out after 1m0s
FAIL  pkg/r                               1.0s
ok    pkg/q FuzzQ                         1.0s

The slowest tests:
    3.0s  pkg/p TestA
    1.0s  pkg/p TestB
    0.0s  pkg/p TestC
The slowest packages:
    4.0s  pkg/p: 2 processes, together 5.0 s, of which 1.0 s CPU
    1.0s  pkg/q FuzzQ: 1 processes, together 1.0 s, of which 0.0 s CPU
    1.0s  pkg/r: 1 processes, together 1.0 s, of which 0.0 s CPU

Failed:
  pkg/p
panic: what it was
    exit status 2
  pkg/p TestB/one
    b_test.go:1: why one failed
  pkg/r TestE
    e_test.go:1: step
panic: test timed out after 1m0s
    exit status 2
  pkg/r TestF
    exit status 2
2 passed, 4 failed, 1 skipped
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if err := r.failure(); err == nil {
		t.Error("a failed test and a failed process are no failure of the run")
	}
}

// TestReason holds that the reason of a failure is found before and after the logs of programs,
// and that it is short.
func TestReason(t *testing.T) {
	long := strings.Repeat("        more\n", 20)
	tests := map[string]struct {
		output string
		want   []string
	}{
		"before the logs": {
			"=== RUN   TestA\n    a_test.go:1: step\n    a_test.go:2: first\n        second\n    main_test.go:3: --- node: program\n        log\n        \n--- FAIL: TestA (1.00s)\n",
			[]string{"    a_test.go:1: step", "    a_test.go:2: first", "        second"},
		},
		"after the logs": {
			"=== RUN   TestA\n    a_test.go:3: --- node: program\n" + long + "    a_test.go:2: why\n--- FAIL: TestA (1.00s)\n",
			[]string{"    a_test.go:2: why"},
		},
		"of a subtest": {"        a_test.go:2: why\n            it failed\n", []string{"        a_test.go:2: why", "            it failed"}},
		"long": {
			"    a_test.go:2: why\n" + long + "        because\n",
			[]string{"    a_test.go:2: why", "        more", "        more", "        […]", "        more", "        more", "        more", "        more", "        because"},
		},
		"wide": {"    a_test.go:2: " + strings.Repeat("é", 200) + "\n", []string{"    a_test.go:2: " + strings.Repeat("é", 141) + "…"}},
		"panic after a log": {
			"    a_test.go:2: step\n--- FAIL: TestA (0.00s)\npanic: why\n\ngoroutine 1 [running]:\nmain.f()\n\ta.go:1 +0x1\nmain.g()\n\ta.go:2 +0x1\nmain.h()\n\ta.go:3 +0x1\n",
			[]string{"    a_test.go:2: step", "panic: why", "", "goroutine 1 [running]:", "main.f()", "\ta.go:1 +0x1", "main.g()", "\ta.go:2 +0x1", "main.h()"},
		},
		"fatal error": {"    a_test.go:2: step\nfatal error: all goroutines are asleep\n", []string{"    a_test.go:2: step", "fatal error: all goroutines are asleep"}},
		"data race": {
			"    a_test.go:2: step\n==================\nWARNING: DATA RACE\nWrite at 0x1 by goroutine 2:\n    testing.go:9: race detected during execution of test\n",
			[]string{"WARNING: DATA RACE", "Write at 0x1 by goroutine 2:", "    testing.go:9: race detected during execution of test"},
		},
		"without a place": {"panic: why\n\ngoroutine 1 [running]:\n", []string{"panic: why", "", "goroutine 1 [running]:"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, reason([]string{tt.output})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
