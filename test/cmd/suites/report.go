// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// errNoResult is the error of a process that did not run all of its tests.
var errNoResult = errors.New("the process has not run all of its tests")

const (
	// slowest is the number of tests and suites in the final lists.
	slowest = 10
	// reasonLines is the number of lines of a failed test in the final list.
	reasonLines = 8
)

// report adds up the results of processes. It prints the output of failed and skipped tests
// as soon as their process has ended.
type report struct {
	out                     io.Writer
	passed, failed, skipped int
	broken                  int                 // processes that failed without a failed test
	failures                map[string][]string // the last lines of the output by failure
	suites                  map[string]*total
	tests                   []timed
}

// total is the time of all processes of one suite.
type total struct {
	processes  int
	left       int // processes that have not ended
	begin, end time.Time
	busy       time.Duration // the sum of the processes' wall times
	cpu        time.Duration
	failed     bool
}

// wall returns the time from the start of a suite's first process to the end of its last.
func (t *total) wall() time.Duration { return t.end.Sub(t.begin) }

type timed struct {
	name    string
	seconds float64
}

func newReport(out io.Writer) *report {
	return &report{out: out, suites: map[string]*total{}, failures: map[string][]string{}}
}

// expect registers a process.
func (r *report) expect(p *process) {
	t := r.suites[p.name()]
	if t == nil {
		t = &total{}
		r.suites[p.name()] = t
	}
	t.processes++
	t.left++
}

// add counts the tests of an ended process. A planned test without a result has failed.
func (r *report) add(res result) {
	failed := r.failed
	missing := map[string]bool{}
	for _, name := range res.process.tests {
		// An example without expected output does not run.
		missing[name] = res.process.command == nil && !strings.HasPrefix(name, "Example")
	}
	output := map[string][]string{}
	ended := map[string]bool{}
	for _, e := range res.events {
		switch {
		case e.Action == "output":
			output[e.Test] = append(output[e.Test], e.Output)
		case e.Test != "" && r.ended(res.process, e, output[e.Test]):
			ended[e.Test] = true
			delete(missing, e.Test)
		}
	}
	if res.process.command != nil && res.err == nil {
		r.passed++ // a fuzzer
	}
	maps.DeleteFunc(missing, func(_ string, is bool) bool { return !is })
	err := cmp.Or(res.err, errNoResult)
	for name := range missing {
		r.failed++
		r.fail(res.process.pack.dir+" "+name, output[name], "    "+err.Error())
	}
	if len(missing) > 0 || res.err != nil && r.failed == failed {
		r.broken++
		var rest []string
		for _, e := range res.events {
			if e.Action == "output" && !ended[e.Test] {
				rest = append(rest, e.Output)
			}
		}
		fmt.Fprintf(r.out, "%s: %v\n", res.process.name(), err)
		if len(missing) > 0 {
			fmt.Fprintf(r.out, "tests without a result: %s\n", strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
		} else {
			r.fail(res.process.name(), rest, "    "+err.Error())
		}
		fmt.Fprint(r.out, strings.Join(rest, ""))
	}
	r.account(res, r.failed > failed)
}

// ended counts a test at its last event and prints failed and skipped tests.
func (r *report) ended(p *process, e event, output []string) bool {
	name := p.pack.dir + " " + e.Test
	switch e.Action {
	case "pass":
		r.passed++
	case "fail":
		r.failed++
		r.fail(name, output, "")
	case "skip":
		r.skipped++
	default:
		return false
	}
	if e.Action != "pass" {
		fmt.Fprintf(r.out, "%s\n%s", name, strings.Join(output, ""))
	}
	if !strings.Contains(e.Test, "/") {
		r.tests = append(r.tests, timed{name, e.Elapsed})
	}
	return true
}

// details matches what follows the error of a failed test: the output of a lab's programs
// (lab.Lab.Logs), and the stacks of goroutines.
var details = regexp.MustCompile(`^ {4,}[^ :]+\.go:[0-9]+: --- |^goroutine [0-9]+ \[`)

// fail records a failure with the end of its output without details, and the error of its
// process.
func (r *report) fail(name string, output []string, err string) {
	if at := slices.IndexFunc(output, details.MatchString); at >= 0 {
		output = output[:at]
	}
	lines := strings.Split(strings.TrimRight(strings.Join(output, "")+err, "\n"), "\n")
	r.failures[name] = lines[max(0, len(lines)-reasonLines):]
}

// distinct returns the failures without the tests whose subtests failed.
func (r *report) distinct() []string {
	all := slices.Sorted(maps.Keys(r.failures))
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		return slices.ContainsFunc(all, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
}

// account adds the time of a process to its suite and prints the suite's line after its
// last process.
func (r *report) account(res result, failed bool) {
	t := r.suites[res.process.name()]
	end := res.begin.Add(res.wall)
	if t.begin.IsZero() || res.begin.Before(t.begin) {
		t.begin = res.begin
	}
	if end.After(t.end) {
		t.end = end
	}
	t.left--
	t.busy += res.wall
	t.cpu += res.cpu
	t.failed = t.failed || res.err != nil || failed
	if t.left > 0 {
		return
	}
	result := "ok  "
	if t.failed {
		result = "FAIL"
	}
	fmt.Fprintf(r.out, "%s  %-32s %6.1fs\n", result, res.process.name(), t.wall().Seconds())
}

// printSummary prints the slowest tests and suites, the failures with their reasons, and the
// counts. The failures are near the end because a long output is often cut to its last lines.
func (r *report) printSummary() {
	slices.SortStableFunc(r.tests, func(a, b timed) int { return cmp.Compare(b.seconds, a.seconds) })
	fmt.Fprintln(r.out, "\nThe slowest tests:")
	for _, t := range r.tests[:min(slowest, len(r.tests))] {
		fmt.Fprintf(r.out, "%7.1fs  %s\n", t.seconds, t.name)
	}
	fmt.Fprintln(r.out, "The slowest packages:")
	names := slices.SortedFunc(maps.Keys(r.suites), func(a, b string) int {
		return cmp.Compare(r.suites[b].wall(), r.suites[a].wall())
	})
	for _, name := range names[:min(slowest, len(names))] {
		t := r.suites[name]
		fmt.Fprintf(r.out, "%7.1fs  %s: %d processes, together %.1f s, of which %.1f s CPU\n",
			t.wall().Seconds(), name, t.processes, t.busy.Seconds(), t.cpu.Seconds())
	}
	fmt.Fprintln(r.out)
	if len(r.failures) > 0 {
		fmt.Fprintln(r.out, "Failed:")
	}
	for _, name := range r.distinct() {
		fmt.Fprintln(r.out, strings.Join(append([]string{"  " + name}, r.failures[name]...), "\n"))
	}
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
}

// failure returns an error when a run failed. A skipped test is a failure for root.
func (r *report) failure() error {
	switch {
	case r.failed > 0 || r.broken > 0:
		return fmt.Errorf("%d tests and %d processes failed", r.failed, r.broken)
	case r.passed == 0:
		return errors.New("no test ran")
	case r.skipped > 0 && os.Geteuid() == 0:
		return fmt.Errorf("%d tests were skipped: root skips none", r.skipped)
	}
	return nil
}
