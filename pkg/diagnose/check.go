// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
)

// Outcome is the result of a check.
type Outcome string

// The outcomes.
const (
	OK            Outcome = "ok"
	Warning       Outcome = "warning"
	Problem       Outcome = "problem"
	Skipped       Outcome = "skipped" // the check could not run, or there is nothing to check
	NotApplicable Outcome = "nothing" // of a report: there is nothing to check on this host
)

// Result is the result of one check.
type Result struct {
	Name       string             `json:"name"`
	Outcome    Outcome            `json:"outcome"`
	Text       string             `json:"text,omitempty"`       // what works, or why the check was skipped
	NotChecked string             `json:"notChecked,omitempty"` // what could not be checked, and why
	Findings   []findings.Finding `json:"findings,omitempty"`
	DurationMs float64            `json:"durationMs"`
}

// okResult is a result without findings.
func okResult(format string, args ...any) Result {
	return Result{Outcome: OK, Text: fmt.Sprintf(format, args...)}
}

// skippedResult is the result of a check that could not run, with the reason.
func skippedResult(format string, args ...any) Result {
	return Result{Outcome: Skipped, Text: fmt.Sprintf(format, args...)}
}

// findingsResult is a result with findings. Without any, it is OK with the text.
func findingsResult(matches []findings.Finding, format string, args ...any) Result {
	r := okResult(format, args...)
	r.Findings = matches
	for _, f := range matches {
		switch f.Level {
		case findings.Problem:
			r.Outcome = Problem
		case findings.Warning:
			if r.Outcome == OK {
				r.Outcome = Warning
			}
		}
	}
	if len(matches) > 0 {
		r.Text = ""
	}
	return r
}

// withNotChecked adds what could not be checked. An empty text adds nothing.
func (r Result) withNotChecked(unseen string) Result {
	r.NotChecked = unseen
	return r
}

// check is one entry of the list of checks.
type check struct {
	name    string
	timeout time.Duration // of this check; all checks run concurrently
	run     func(context.Context, *host) Result
}

// totalTimeout bounds the whole run.
const totalTimeout = 14 * time.Second

// Progress is the progress of a run.
type Progress struct {
	Done, Total int
	Pending     []string // names of the checks that still run
}

// Run checks this host, for at most 15 s. It calls progress at the start and after each
// check, one call at a time. An error means that the checks could not run.
func Run(ctx context.Context, o Options, progress func(Progress)) (Report, error) {
	begin := time.Now()
	progress(Progress{Total: len(allChecks())})
	r, err := run(ctx, o, progress)
	r.DurationMs = milliseconds(time.Since(begin))
	return r, err
}

func run(ctx context.Context, o Options, progress func(Progress)) (Report, error) {
	bounded, cancel := context.WithTimeout(ctx, totalTimeout)
	defer cancel()
	h, err := inspectHost(bounded, o)
	if err != nil {
		return Report{}, err
	}
	if h.notApplicable() {
		return h.notApplicableReport(), nil
	}
	client, err := prober.Start()
	if err != nil {
		return Report{}, err
	}
	defer client.Close()
	h = h.withNetwork(bounded, client)
	trace := newFuture(func() []TraceStep {
		within, cancel := context.WithTimeout(bounded, networkTimeout)
		defer cancel()
		return h.traceChallenge(within)
	})
	h.observed.start()
	if o.Token != "" {
		trace.start()
	}
	results := runAll(bounded, h, applicableChecks(h), progress)
	if ctx.Err() != nil {
		return Report{}, fmt.Errorf("cannot check this host: %w", context.Cause(ctx))
	}
	if o.Token == "" {
		return h.newReport(results, nil), nil
	}
	steps, known := trace.await(bounded)
	if !known {
		steps = []TraceStep{newStep("dns", "", false, 0, "no time left to trace the challenge")}
	}
	return h.newReport(results, steps), nil
}

// runAll runs checks concurrently.
func runAll(ctx context.Context, h *host, list []check, progress func(Progress)) []Result {
	results := make([]Result, len(list))
	p := Progress{Total: len(list)}
	for _, c := range list {
		p.Pending = append(p.Pending, c.name)
	}
	progress(p)
	var all sync.WaitGroup
	var mu sync.Mutex
	for i, c := range list {
		all.Go(func() {
			results[i] = c.runWithTimeout(ctx, h)
			mu.Lock()
			defer mu.Unlock()
			p.Done++
			p.Pending = slices.DeleteFunc(p.Pending, func(name string) bool { return name == c.name })
			progress(p)
		})
	}
	all.Wait()
	return results
}

// runWithTimeout runs a check within its timeout. A check that ignores its context is
// abandoned.
func (c check) runWithTimeout(ctx context.Context, h *host) Result {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	begin := time.Now()
	answer := make(chan Result, 1)
	go func() { answer <- c.run(ctx, h) }()
	var r Result
	select {
	case r = <-answer:
	case <-ctx.Done():
		select {
		case r = <-answer:
		case <-time.After(time.Second):
			r = skippedResult("not finished within %v", c.timeout)
		}
	}
	r.Name, r.DurationMs = c.name, milliseconds(time.Since(begin))
	return r
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
