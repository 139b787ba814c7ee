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
	Fine    Outcome = "ok"
	Warned  Outcome = "warning"
	Failed  Outcome = "problem"
	Skipped Outcome = "skipped" // it could not look, or there is nothing to look at
	Nothing Outcome = "nothing" // of a report: this host has nothing to check
)

// Result is what one check found.
type Result struct {
	Name     string             `json:"name"`
	Outcome  Outcome            `json:"outcome"`
	Text     string             `json:"text,omitempty"`   // what is well, or why it was not looked at
	Unseen   string             `json:"unseen,omitempty"` // what of it could not be looked at, and why
	Findings []findings.Finding `json:"findings,omitempty"`
	Took     float64            `json:"durationMs"`
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
func found(matches []findings.Finding, format string, args ...any) Result {
	r := fine(format, args...)
	r.Findings = matches
	for _, f := range matches {
		switch f.Level {
		case findings.Problem:
			r.Outcome = Failed
		case findings.Warning:
			if r.Outcome == Fine {
				r.Outcome = Warned
			}
		}
	}
	if len(matches) > 0 {
		r.Text = ""
	}
	return r
}

// but says what could not be looked at, whatever else was found; nothing, when the
// text is empty.
func (r Result) but(unseen string) Result {
	r.Unseen = unseen
	return r
}

// check is one entry of the list of checks.
type check struct {
	name  string
	limit time.Duration // of its own; all run side by side
	run   func(context.Context, *host) Result
}

// budget bounds everything together.
const budget = 14 * time.Second

// Progress is how far a run is.
type Progress struct {
	Over, All int
	Waiting   []string // names of the checks that are not over
}

// Run looks at this host, for 15 s at the longest. progress is called at first and
// after each check, one call at a time. An error means that it could not look.
func Run(ctx context.Context, o Options, progress func(Progress)) (Report, error) {
	begin := time.Now()
	progress(Progress{All: len(checks())})
	r, err := run(ctx, o, progress)
	r.Took = millis(time.Since(begin))
	return r, err
}

func run(ctx context.Context, o Options, progress func(Progress)) (Report, error) {
	bounded, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	h, err := look(bounded, o)
	if err != nil {
		return Report{}, err
	}
	if h.isNoNode() {
		return h.nothing(), nil
	}
	if h.network, err = prober.Start(); err != nil {
		return Report{}, err
	}
	defer h.network.Close()
	h.seen = observe(bounded, h)
	var trace *later[[]Hop]
	if o.Token != "" {
		trace = find(func() []Hop {
			within, cancel := context.WithTimeout(bounded, remote)
			defer cancel()
			return h.trace(within)
		})
	}
	results := runAll(bounded, h, checksOn(h), progress)
	if ctx.Err() != nil {
		return Report{}, fmt.Errorf("look at this host: %w", context.Cause(ctx))
	}
	var hops []Hop
	if trace != nil {
		var known bool
		if hops, known = trace.wait(bounded); !known {
			hops = []Hop{hop("dns", "", false, 0, "there was no time to follow the challenge")}
		}
	}
	return h.summed(results, hops), nil
}

// runAll runs checks side by side.
func runAll(ctx context.Context, h *host, list []check, progress func(Progress)) []Result {
	results := make([]Result, len(list))
	p := Progress{All: len(list)}
	for _, c := range list {
		p.Waiting = append(p.Waiting, c.name)
	}
	progress(p)
	var all sync.WaitGroup
	var mu sync.Mutex
	for i, c := range list {
		all.Go(func() {
			results[i] = c.do(ctx, h)
			mu.Lock()
			defer mu.Unlock()
			p.Over++
			p.Waiting = slices.DeleteFunc(p.Waiting, func(name string) bool { return name == c.name })
			progress(p)
		})
	}
	all.Wait()
	return results
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
	r.Name, r.Took = c.name, millis(time.Since(begin))
	return r
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
