// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// DefaultTimeout bounds the whole run.
const DefaultTimeout = 24 * time.Second

// Run checks this host, for at most a second more than the timeout. It calls progress with the names
// of the checks that still run, at their start and after each, one call at a time. An error means
// that the checks could not run.
func Run(ctx context.Context, o Options, progress func(pending []string)) (result.Report, error) {
	begin := time.Now()
	r, err := run(ctx, o, progress)
	r.DurationMs = result.Milliseconds(time.Since(begin))
	return r, err
}

func run(ctx context.Context, opts Options, progress func(pending []string)) (result.Report, error) {
	if opts.Coordination != nil {
		h, err := inspectWithin(ctx, opts)
		if err != nil {
			return result.Report{}, err
		}
		opts.Coordination.awaitStart(ctx, h.VIPs.Held) // can take minutes: the host is inspected again
	}
	bounded, cancel := context.WithTimeout(ctx, cmp.Or(opts.Timeout, DefaultTimeout))
	defer cancel()
	h, err := inspectWithin(bounded, opts)
	if err != nil {
		return result.Report{}, err
	}
	if !h.isApplicable() && !slices.Contains(h.Only, configCheck) {
		return h.notApplicableReport(), nil
	}
	client, err := prober.Start()
	if err != nil {
		return result.Report{}, err
	}
	defer client.Close()
	o := newObservations(bounded, h, client)
	trace := newFuture(func() []result.Step {
		within, cancel := context.WithTimeout(bounded, traceTimeout)
		defer cancel()
		return o.traceChallenge(within)
	})
	if opts.Token != "" {
		trace.start()
	}
	results := runAll(bounded, o, h.selectedChecks(), progress)
	if ctx.Err() != nil {
		return result.Report{}, fmt.Errorf("cannot check this host: %w", context.Cause(ctx))
	}
	conditions := result.Conditions{Host: h.name, Held: h.VIPs.Held, Privileged: h.privileged, Selected: len(h.Only) > 0}
	if h.VIPs.BGP {
		conditions.Management = report.ManagementBGP
	}
	if opts.Token == "" {
		return result.NewReport(conditions, results, nil), nil
	}
	steps, known := trace.await(bounded)
	if !known {
		steps = []result.Step{result.NewStep("dns", "", false, 0, "no time left to trace the challenge")}
	}
	return result.NewReport(conditions, results, steps), nil
}

// runAll runs checks concurrently.
func runAll(ctx context.Context, o *observations, list []check, progress func(pending []string)) []result.Result {
	results := make([]result.Result, len(list))
	pending := make([]string, len(list))
	for i, c := range list {
		pending[i] = c.name
	}
	progress(pending)
	var all sync.WaitGroup
	var mu sync.Mutex
	for i, c := range list {
		all.Go(func() {
			results[i] = c.runWithTimeout(ctx, o)
			mu.Lock()
			defer mu.Unlock()
			pending = slices.DeleteFunc(pending, func(name string) bool { return name == c.name })
			progress(pending)
		})
	}
	all.Wait()
	return results
}

// runWithTimeout runs a check within its timeout. A check that ignores its context is
// abandoned.
func (c check) runWithTimeout(whole context.Context, o *observations) result.Result {
	ctx, cancel := context.WithTimeout(whole, c.timeout)
	defer cancel()
	begin := time.Now()
	answer := make(chan result.Result, 1)
	go func() {
		if reason := o.unmetNeed(c); reason != "" {
			answer <- result.NotCompleted("%s", reason)
			return
		}
		answer <- c.run(ctx, o)
	}()
	var r result.Result
	select {
	case r = <-answer:
	case <-ctx.Done():
		select {
		case r = <-answer:
		case <-time.After(time.Second):
			r = result.NotCompleted("not completed within %v", c.timeout)
		}
	}
	if whole.Err() != nil && r.Outcome == report.CheckSkipped && r.Incomplete {
		r = result.NotCompleted("not completed within the time for all checks (--timeout)")
	}
	r.Name, r.DurationMs = c.name, result.Milliseconds(time.Since(begin))
	return r
}
