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

// Outcome is how a check ended.
type Outcome string

// The outcomes.
const (
	OK            Outcome = "ok"
	Warning       Outcome = "warning"
	Problem       Outcome = "problem"
	Skipped       Outcome = "skipped" // it could not look, or there is nothing to look at
	NotApplicable Outcome = "nothing" // of a report: this host has nothing to check
)

// Result is what one check found.
type Result struct {
	Name       string             `json:"name"`
	Outcome    Outcome            `json:"outcome"`
	Text       string             `json:"text,omitempty"`   // what is well, or why it was not looked at
	NotChecked string             `json:"unseen,omitempty"` // what of it could not be looked at, and why
	Findings   []findings.Finding `json:"findings,omitempty"`
	DurationMs float64            `json:"durationMs"`
}

// okResult is a result without findings.
func okResult(format string, args ...any) Result {
	return Result{Outcome: OK, Text: fmt.Sprintf(format, args...)}
}

// skippedResult is the result of a check that could not look, with the reason.
func skippedResult(format string, args ...any) Result {
	return Result{Outcome: Skipped, Text: fmt.Sprintf(format, args...)}
}

// future is a result with findings; without any it is fine, with the text.
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

// withNotChecked says what could not be looked at, whatever else was found; nothing, when the
// text is empty.
func (r Result) withNotChecked(unseen string) Result {
	r.NotChecked = unseen
	return r
}

// check is one entry of the list of checks.
type check struct {
	name    string
	timeout time.Duration // of its own; all run side by side
	run     func(context.Context, *host) Result
}

// totalTimeout bounds everything together.
const totalTimeout = 14 * time.Second

// Progress is how far a run is.
type Progress struct {
	Done, Total int
	Pending     []string // names of the checks that are not over
}

// Run looks at this host, for 15 s at the longest. progress is called at first and
// after each check, one call at a time. An error means that it could not look.
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
	if h.prober, err = prober.Start(); err != nil {
		return Report{}, err
	}
	defer h.prober.Close()
	h.observed = observe(bounded, h)
	var trace *future[[]TraceStep]
	if o.Token != "" {
		trace = startFuture(func() []TraceStep {
			within, cancel := context.WithTimeout(bounded, networkTimeout)
			defer cancel()
			return h.traceChallenge(within)
		})
	}
	results := runAll(bounded, h, applicableChecks(h), progress)
	if ctx.Err() != nil {
		return Report{}, fmt.Errorf("look at this host: %w", context.Cause(ctx))
	}
	var hops []TraceStep
	if trace != nil {
		var known bool
		if hops, known = trace.await(bounded); !known {
			hops = []TraceStep{newStep("dns", "", false, 0, "there was no time to follow the challenge")}
		}
	}
	return h.newReport(results, hops), nil
}

// runAll runs checks side by side.
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

// runWithTimeout runs a check within its limit. One that does not heed its context is left
// behind.
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
			r = skippedResult("it did not end within %v", c.timeout)
		}
	}
	r.Name, r.DurationMs = c.name, milliseconds(time.Since(begin))
	return r
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
