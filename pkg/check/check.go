// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/catalogue"
)

// Outcome is how a check ended.
type Outcome string

// The outcomes.
const (
	Fine    Outcome = "ok"
	Warned  Outcome = "warning"
	Failed  Outcome = "problem"
	Skipped Outcome = "skipped" // it could not look, or there is nothing to look at
)

// Result is what one check found.
type Result struct {
	Name     string              `json:"name"`
	Outcome  Outcome             `json:"outcome"`
	Text     string              `json:"text,omitempty"` // what is well, or why it was not looked at
	Findings []catalogue.Finding `json:"findings,omitempty"`
	Took     float64             `json:"durationMs"`
}

// fine is a result without findings.
func fine(format string, args ...any) Result {
	return Result{Outcome: Fine, Text: fmt.Sprintf(format, args...)}
}

// skipped is the result of a check that could not look, with the reason.
func skipped(format string, args ...any) Result {
	return Result{Outcome: Skipped, Text: fmt.Sprintf(format, args...)}
}

// found is a result with findings; without any it is fine, with the text.
func found(findings []catalogue.Finding, format string, args ...any) Result {
	r := fine(format, args...)
	r.Findings = findings
	for _, f := range findings {
		switch f.Level {
		case catalogue.Problem:
			r.Outcome = Failed
		case catalogue.Warning:
			if r.Outcome == Fine {
				r.Outcome = Warned
			}
		}
	}
	if len(findings) > 0 {
		r.Text = ""
	}
	return r
}

// check is one entry of the list of checks.
type check struct {
	name  string
	limit time.Duration // of its own; all run side by side
	run   func(context.Context, *host) Result
}

// budget bounds everything together.
const budget = 15 * time.Second

// Report is what all checks found, in the order of the catalogue.
type Report struct {
	Host    string   `json:"host"`
	Outcome Outcome  `json:"outcome"` // the worst
	Checks  []Result `json:"checks"`
}

// Run looks at this host, for 15 s at the longest. done is called after each
// check, one call at a time, with how many there are and how many are over.
func Run(ctx context.Context, o Options, done func(over, all int)) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	h, err := look(ctx, o)
	if err != nil {
		return Report{}, err
	}
	defer h.close()
	list := checks()
	results := make([]Result, len(list))
	var all sync.WaitGroup
	var progress sync.Mutex
	over := 0
	for i, c := range list {
		all.Go(func() {
			results[i] = c.do(ctx, h)
			progress.Lock()
			defer progress.Unlock()
			over++
			done(over, len(list))
		})
	}
	all.Wait()
	return Report{Host: h.name, Outcome: worst(results), Checks: results}, nil
}

// do runs a check within its limit. One that does not heed its context is left
// behind.
func (c check) do(ctx context.Context, h *host) Result {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
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
			r = skipped("it did not end within %v", c.limit)
		}
	}
	r.Name, r.Took = c.name, float64(time.Since(begin).Microseconds())/1000
	return r
}

func worst(results []Result) Outcome {
	order := []Outcome{Skipped, Fine, Warned, Failed}
	at := 0
	for _, r := range results {
		at = max(at, slices.Index(order, r.Outcome))
	}
	return order[at]
}
