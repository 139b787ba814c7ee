// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// Run brings up a lab, runs all measurements in it, and removes it.
func Run(ctx context.Context, o Options) (report Report, err error) {
	all, err := o.selectedProxies()
	if err != nil {
		return report, err
	}
	l, err := lab.New(ctx)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	report, err = measure(ctx, l, o, all)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w\n%s", err, l.Logs())
	}
	return report, err
}

func measure(ctx context.Context, l *lab.Lab, o Options, all []proxy) (report Report, err error) {
	r, err := newRig(ctx, l, o)
	if err != nil {
		return report, fmt.Errorf("make the place to measure in: %w", err)
	}
	if report.Machine, err = r.describeMachine(ctx, all); err != nil {
		return report, err
	}
	seen, err := r.compare(ctx, all)
	if err != nil {
		return report, err
	}
	weighed := map[string]memory{}
	if o.HalfHeads > 0 {
		if weighed, err = r.measureMemory(ctx, all); err != nil {
			return report, err
		}
	}
	report.Options, report.Rows, report.OtherLoad = o, rows(o, all, seen, weighed), summariseOtherLoad(seen)
	if o.Pairs > 0 {
		report.Costs, err = r.measureCosts(ctx)
	}
	if err != nil {
		return report, err
	}
	report.Goals = goals(o, seen, weighed)
	report.Versions, err = compareVersions(o, seen)
	return report, err
}

// Report contains the results.
type Report struct {
	Options   Options
	Machine   Machine
	Rows      []Row
	Costs     []Cost
	Goals     []Goal
	Versions  []VersionRatio // of the service to an earlier one
	OtherLoad OtherLoad
}

// OtherLoad is the CPU time of other programs during the comparison, as a part of the
// machine's time. With a high value the results are unreliable.
type OtherLoad struct {
	Median, Most float64
}

func summariseOtherLoad(seen map[string]cells) OtherLoad {
	var all []float64
	for _, c := range seen {
		for _, rounds := range c {
			for _, one := range rounds {
				all = append(all, one.others)
			}
		}
	}
	if len(all) == 0 {
		return OtherLoad{}
	}
	return OtherLoad{Median: median(all), Most: slices.Max(all)}
}

// Row is the result of one proxy with one number of connections.
type Row struct {
	Key, Proxy  string
	Connections int
	Rate        float64 // requests a second, median over rounds
	Ratio       float64 // rate relative to HAProxy's: median of the ratios by round; 0 without HAProxy
	P50, P99    float64 // milliseconds, medians over rounds
	P999        float64
	CPU         float64 // user and system time of the proxy for each request in µs; 0 for the kernel
	Requests    int     // over all rounds
	Errors      int     // over all rounds
	Idle, Half  float64 // proportional memory in MiB; 0 for the kernel
	Open        int     // connections still open when Half was read
	Unfiltered  bool    // forwards every path
}

// reference is the proxy that rates are compared with.
const reference = "haproxy"

func rows(o Options, all []proxy, seen map[string]cells, weighed map[string]memory) []Row {
	var out []Row
	for _, connections := range o.Connections {
		for _, d := range all {
			row := summarise(seen[d.key][connections], seen[reference][connections])
			row.Key, row.Proxy, row.Unfiltered, row.Connections = d.key, d.name, !d.prefix, connections
			m := weighed[d.key]
			row.Idle, row.Half, row.Open = mib(m.idle), mib(m.half), m.open
			out = append(out, row)
		}
	}
	slices.SortStableFunc(out, func(a, b Row) int { return a.Connections - b.Connections })
	return out
}

// summarise combines the rounds of one proxy. haproxy may be empty.
func summarise(own, haproxy []cell) Row {
	var row Row
	var proxy time.Duration
	good := 0
	for _, c := range own {
		proxy += c.usage.proxy
		good += c.good()
		row.Requests += c.requests
		row.Errors += c.errors
	}
	row.Rate, row.Ratio = medianOf(own, cell.rate), median(ratios(own, haproxy, cell.rate))
	row.P50, row.P99, row.P999 = medianOf(own, cell.p50ms), medianOf(own, cell.p99ms), medianOf(own, cell.p999ms)
	row.CPU = perRequest(proxy, good)
	return row
}

// medianOf returns the median of a figure over the rounds.
func medianOf(rounds []cell, figure func(cell) float64) float64 {
	return median(figures(rounds, figure))
}

// figures returns a figure of each round.
func figures(rounds []cell, figure func(cell) float64) []float64 {
	values := make([]float64, len(rounds))
	for i, c := range rounds {
		values[i] = figure(c)
	}
	return values
}

// ratios returns the ratio of a figure in each round that both completed.
func ratios(own, other []cell, figure func(cell) float64) []float64 {
	var out []float64
	for i, c := range own {
		if i < len(other) && figure(other[i]) > 0 {
			out = append(out, figure(c)/figure(other[i]))
		}
	}
	return out
}
