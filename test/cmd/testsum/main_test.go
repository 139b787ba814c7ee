// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestSum(t *testing.T) {
	t.Parallel()
	in := `make: words of another program
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"why it failed\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestC","Output":"why it was skipped\n"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
{"Action":"build-output","ImportPath":"q","Output":"q.go:1: syntax error\n"}
{"Action":"fail","Package":"q"}
{"Action":"output","Package":"r","Output":"?   \tr\t[no test files]\n"}
{"Action":"skip","Package":"r"}
`
	var out strings.Builder
	s := newSum(&out)
	if err := s.read(strings.NewReader(in)); err != nil {
		t.Fatal(err)
	}
	if s.passed != 1 || s.failed != 1 || s.skipped != 1 || s.broken != 1 {
		t.Errorf("%d passed, %d failed, %d skipped, %d broken", s.passed, s.failed, s.skipped, s.broken)
	}
	want := "make: words of another program\nwhy it failed\nwhy it was skipped\nFAIL\tp\t0.1s\nq.go:1: syntax error\n"
	if out.String() != want {
		t.Errorf("shows\n%s\nwant\n%s", out.String(), want)
	}
}
