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
{"Action":"fail","Package":"p","Test":"TestB","Elapsed":1}
{"Action":"output","Package":"p","Test":"TestC","Output":"why it was skipped\n"}
{"Action":"skip","Package":"p","Test":"TestC"}
`))
	if err != nil {
		t.Fatal(err)
	}
	one := &process{pack: &testPackage{dir: "pkg/p"}}
	two := &process{pack: &testPackage{dir: "pkg/p"}}
	fuzz := fuzzer{"pkg/q", "FuzzQ", "10x"}.process(&testPackage{dir: "pkg/q"}, "q.test", "fuzz")
	var out strings.Builder
	r := newReport(&out)
	begin := time.Now()
	for _, p := range []*process{one, two, fuzz} {
		r.expect(p)
	}
	r.add(result{process: one, events: events, err: errors.New("exit status 1"), begin: begin, wall: 2 * time.Second, cpu: time.Second})
	r.add(result{
		process: two, events: []event{{Action: "output", Test: "TestD", Output: "panic: what it was\n"}},
		err: errors.New("exit status 2"), begin: begin.Add(time.Second), wall: 3 * time.Second,
	})
	r.add(result{process: fuzz, begin: begin, wall: time.Second})
	r.printSummary()
	want := `pkg/p TestB
why it failed
pkg/p TestC
why it was skipped
pkg/p: exit status 2
panic: what it was
FAIL  pkg/p                               4.0s
ok    pkg/q FuzzQ                         1.0s

The slowest tests:
    3.0s  pkg/p TestA
    1.0s  pkg/p TestB
    0.0s  pkg/p TestC
The slowest packages:
    4.0s  pkg/p: 2 processes, together 5.0 s, of which 1.0 s CPU
    1.0s  pkg/q FuzzQ: 1 processes, together 1.0 s, of which 0.0 s CPU

Failed:
  pkg/p TestB
  pkg/p
2 passed, 1 failed, 1 skipped
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if err := r.failure(); err == nil {
		t.Error("a failed test and a failed process are no failure of the run")
	}
}
