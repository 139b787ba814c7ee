// SPDX-License-Identifier: Apache-2.0

// Command testsum reads what go test -json prints, shows the packages' results
// and the output of what failed or was skipped, and ends with the counts. A
// skipped test counts as a failure for root, who can run all of them.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	s := newSum(os.Stdout)
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(1)
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
	switch {
	case s.failed > 0, s.broken > 0:
		os.Exit(1)
	case s.passed == 0:
		fmt.Fprintln(os.Stderr, "testsum: no test was run")
		os.Exit(1)
	case s.skipped > 0 && os.Geteuid() == 0:
		fmt.Fprintln(os.Stderr, "testsum: as root no test may be skipped")
		os.Exit(1)
	}
}

// event is one line of go test -json (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

type sum struct {
	out                     io.Writer
	output                  map[string][]string // of tests that are not over
	passed, failed, skipped int
	broken                  int // packages that failed as a whole: they did not build, or a TestMain failed
	failedIn                map[string]bool
}

func newSum(out io.Writer) *sum {
	return &sum{out: out, output: make(map[string][]string), failedIn: make(map[string]bool)}
}

func (s *sum) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if !strings.HasPrefix(lines.Text(), "{") || json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(s.out, lines.Text()) // not go test's
			continue
		}
		s.take(e)
	}
	return lines.Err()
}

func (s *sum) take(e event) {
	name := e.Package + " " + e.Test
	switch {
	case e.Action == "build-output":
		fmt.Fprint(s.out, e.Output)
	case e.Action == "output" && e.Test == "":
		s.packageLine(e)
	case e.Action == "output":
		s.output[name] = append(s.output[name], e.Output)
	case e.Test == "" && e.Action == "fail":
		if !s.failedIn[e.Package] {
			s.broken++
		}
	case e.Test != "":
		s.ended(e, name)
	}
}

// packageLine shows a package's verdict and whatever is no test's own output.
func (s *sum) packageLine(e event) {
	if line := strings.TrimSpace(e.Output); line != "PASS" && line != "" && !strings.HasSuffix(line, "[no test files]") {
		fmt.Fprint(s.out, e.Output)
	}
}

func (s *sum) ended(e event, name string) {
	switch e.Action {
	case "pass":
		s.passed++
	case "fail":
		s.failed++
		s.failedIn[e.Package] = true
	case "skip":
		s.skipped++
	default:
		return
	}
	if e.Action != "pass" {
		fmt.Fprint(s.out, strings.Join(s.output[name], ""))
	}
	delete(s.output, name)
}
