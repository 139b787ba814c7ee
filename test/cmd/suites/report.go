// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// errNoResult is the error of a process that did not run all of its tests.
var errNoResult = errors.New("the process has not run all of its tests")

// slowest is the number of tests and suites in the final lists.
const slowest = 10

// report adds up the results of processes. It prints the output of failed and skipped tests
// as soon as their process has ended.
type report struct {
	out                     io.Writer
	passed, failed, skipped int
	broken                  int // processes that failed without a failed test
	failures                []string
	reasons                 map[string][]string // by failure
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
	waits      map[string]time.Duration
	failed     bool
}

// wall returns the time from the start of a suite's first process to the end of its last.
func (t *total) wall() time.Duration { return t.end.Sub(t.begin) }

type timed struct {
	name    string
	seconds float64
}

func newReport(out io.Writer) *report {
	return &report{out: out, suites: map[string]*total{}, reasons: map[string][]string{}}
}

// expect registers a process.
func (r *report) expect(p *process) {
	t := r.suites[p.name()]
	if t == nil {
		t = &total{waits: map[string]time.Duration{}}
		r.suites[p.name()] = t
	}
	t.processes++
	t.left++
}

// add counts the tests of an ended process. A planned test without a result has failed.
func (r *report) add(res result) {
	failed := r.failed
	var order []string // of the tests with output, in which it came
	output := map[string][]string{}
	missing := map[string]bool{}
	for _, name := range res.process.tests {
		// An example without expected output does not run.
		missing[name] = res.process.command == nil && !strings.HasPrefix(name, "Example")
	}
	for _, e := range res.events {
		switch {
		case e.Action == "output":
			if output[e.Test] == nil {
				order = append(order, e.Test)
			}
			output[e.Test] = append(output[e.Test], e.Output)
		case e.Test != "" && r.ended(res.process, e, output[e.Test]):
			delete(missing, e.Test)
			delete(output, e.Test)
		}
	}
	if res.process.command != nil && res.err == nil {
		r.passed++ // a fuzzer
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		if missing[name] {
			names = append(names, name)
			r.failed++
			r.fail(res.process.pack.dir+" "+name, output[name], cmp.Or(res.err, errNoResult))
		}
	}
	if len(names) > 0 || res.err != nil && r.failed == failed || errors.Is(res.err, errHeldOpen) {
		r.broken++
		var rest []string // the output without a test's last event
		for _, test := range order {
			rest = append(rest, output[test]...)
		}
		if len(names) == 0 {
			r.fail(res.process.name(), rest, res.err)
		}
		fmt.Fprintf(r.out, "%s: %v\n", res.process.name(), cmp.Or(res.err, errNoResult))
		if len(names) > 0 {
			fmt.Fprintf(r.out, "tests without a result: %s\n", strings.Join(names, ", "))
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
		r.failures = append(r.failures, name)
		r.reasons[name] = reason(output)
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

// fail records a failure without a test's last event: its reason ends with the error of the
// process.
func (r *report) fail(name string, output []string, err error) {
	r.failures = append(r.failures, name)
	var lines []string
	if len(output) > 0 {
		lines = reason(output)
	}
	r.reasons[name] = append(lines, "    "+err.Error())
}

// distinct returns the failures without the tests whose subtests failed.
func (r *report) distinct() []string {
	all := slices.Compact(slices.Sorted(slices.Values(r.failures)))
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
	for what, took := range res.waits {
		t.waits[what] += took
	}
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
	names := r.bySize()
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
		fmt.Fprintln(r.out, strings.Join(append([]string{"  " + name}, r.reasons[name]...), "\n"))
	}
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
}

func (r *report) bySize() []string {
	return slices.SortedFunc(maps.Keys(r.suites), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.suites[b].wall(), r.suites[a].wall()), cmp.Compare(a, b))
	})
}

// bringUp is the prefix of a lab's records about its own start.
const bringUp = "bring up "

// table prints the time of each suite by cause.
func (r *report) table(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "suite\tprocesses\twall s\tprocess s\tCPU s\tbring-up s\tnot on CPU s\twaits of labs")
	for _, name := range r.bySize() {
		t := r.suites[name]
		var up time.Duration
		var reasons []timed
		for what, took := range t.waits {
			if strings.HasPrefix(what, bringUp) {
				up += took
			} else {
				reasons = append(reasons, timed{what, took.Seconds()})
			}
		}
		slices.SortFunc(reasons, func(a, b timed) int { return cmp.Or(cmp.Compare(b.seconds, a.seconds), cmp.Compare(a.name, b.name)) })
		var text []string
		for _, reason := range reasons[:min(3, len(reasons))] {
			text = append(text, fmt.Sprintf("%s %.0f", reason.name, reason.seconds))
		}
		fmt.Fprintf(w, "%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%s\n", name, t.processes, t.wall().Seconds(), t.busy.Seconds(),
			t.cpu.Seconds(), up.Seconds(), max(0, t.busy-t.cpu).Seconds(), strings.Join(text, ", "))
	}
	return w.Flush()
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
