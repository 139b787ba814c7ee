// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/conntrack"
)

// cell is one run of the client against one proxy.
type cell struct {
	load

	usage  cpuUsage // during the run
	others float64  // part of the machine's time that other programs used
}

// cpu returns the CPU time of the proxy for each request in µs, or 0 for the kernel's DNAT.
func (c cell) cpu() float64 { return perRequest(c.usage.proxy, c.good()) }

// perRequest divides a time by a number of requests. It returns µs, or 0 without requests.
func perRequest(t time.Duration, requests int) float64 {
	if requests == 0 {
		return 0
	}
	return float64(t) / float64(time.Microsecond) / float64(requests)
}

// cells holds the results of one proxy by connections and round.
type cells map[int][]cell

// compare measures every proxy in every round. Each round starts with another proxy, so
// that other load on the machine affects all alike.
func (r *rig) compare(ctx context.Context, all []proxy) (map[string]cells, error) {
	seen := map[string]cells{}
	for _, d := range all {
		seen[d.key] = cells{}
	}
	seed := 0
	for round := range r.Rounds {
		for i := range all {
			d := all[(i+round)%len(all)]
			seed++
			if err := r.measureRound(ctx, d, seed*1000, seen[d.key]); err != nil {
				return nil, fmt.Errorf("round %d, %s: %w", round+1, d.name, err)
			}
			r.logf("round %d of %d: %s %s", round+1, r.Rounds, d.name, r.lastRound(seen[d.key]))
		}
	}
	return seen, nil
}

// measureRound measures one proxy in one round.
func (r *rig) measureRound(ctx context.Context, d proxy, seed int, into cells) (err error) {
	if err := conntrack.Flush(r.front); err != nil {
		return err
	}
	t, err := r.startProxy(ctx, d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.stop(context.WithoutCancel(ctx))) }()
	if r.WarmUp > 0 {
		if _, err := r.runClient(ctx, 80, goalConnections, r.WarmUp, seed); err != nil {
			return err
		}
	}
	for i, connections := range r.Connections {
		before, err := r.spent(t)
		if err != nil {
			return err
		}
		l, err := r.runClient(ctx, 80, connections, r.Cell, seed+i+1)
		if err != nil {
			return err
		}
		after, err := r.spent(t)
		if err != nil {
			return err
		}
		usage := after.since(before)
		into[connections] = append(into[connections], cell{load: l, usage: usage, others: otherLoad(usage, l.elapsed)})
	}
	return nil
}

// otherLoad returns the part of all cores' time that other programs used. It includes a
// little kernel time for our packets, which the kernel does not account to a process.
func otherLoad(usage cpuUsage, elapsed time.Duration) float64 {
	other := usage.busy - usage.own
	return max(0, float64(other)/float64(elapsed)/float64(runtime.NumCPU()))
}

// lastRound formats the results of the last round for the progress output.
func (r *rig) lastRound(c cells) string {
	var text strings.Builder
	for _, connections := range r.Connections {
		last := c[connections][len(c[connections])-1]
		fmt.Fprintf(&text, "  %d: %.0f/s p99 %.1f ms CPU %.1f µs (other load %.0f %%)",
			connections, last.rate(), ms(last.p99), last.cpu(), 100*last.others)
		if last.errors > 0 {
			fmt.Fprintf(&text, " %d errors", last.errors)
		}
	}
	return text.String()
}

func (r *rig) logf(format string, args ...any) { _, _ = fmt.Fprintf(r.Progress, format+"\n", args...) }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
