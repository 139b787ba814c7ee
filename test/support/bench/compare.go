// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
)

// cell is one run of wrk against one front door.
type cell struct {
	load

	cpu    time.Duration // of the front door's processes, meanwhile
	others float64       // part of the machine that went to what the bench did not start
}

// cells are what one front door showed, by connections and round.
type cells map[int][]cell

// compare gives every front door its turn in every round, each round beginning
// with another, so that what else the machine does falls on all alike.
func (r *rig) compare(ctx context.Context, all []proxy) (map[string]cells, error) {
	script, err := r.write(r.client, "oneshot.lua", oneshot)
	if err != nil {
		return nil, err
	}
	seen := map[string]cells{}
	for _, d := range all {
		seen[d.key] = cells{}
	}
	seed := 0
	for round := range r.Rounds {
		for i := range all {
			d := all[(i+round)%len(all)]
			seed++
			if err := r.measureRound(ctx, d, script, seed*1000, seen[d.key]); err != nil {
				return nil, fmt.Errorf("round %d, %s: %w", round+1, d.name, err)
			}
			r.logf("round %d of %d: %s %s", round+1, r.Rounds, d.name, r.lastRound(seen[d.key]))
		}
	}
	return seen, nil
}

// measureRound is one front door's part of a round.
func (r *rig) measureRound(ctx context.Context, d proxy, script string, seed int, into cells) (err error) {
	if err := flushConnections(r.front); err != nil {
		return err
	}
	t, err := r.startProxy(ctx, d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.stop(context.WithoutCancel(ctx))) }()
	if r.WarmUp > 0 {
		if _, err := runWrk(ctx, r.client, script, r.vip, 64, r.WarmUp, seed); err != nil {
			return err
		}
	}
	for i, connections := range r.Connections {
		before, err := t.spent()
		if err != nil {
			return err
		}
		l, err := runWrk(ctx, r.client, script, r.vip, connections, r.Cell, seed+i+1)
		if err != nil {
			return err
		}
		after, err := t.spent()
		if err != nil {
			return err
		}
		into[connections] = append(into[connections], cell{
			load: l, cpu: after.proxy - before.proxy, others: otherLoad(before, after, l.took),
		})
	}
	return nil
}

// otherLoad is the part of all cores' time that is not ours. Little of it is the
// kernel's own for our packets, which it cannot tell apart.
func otherLoad(before, after cpuUsage, took time.Duration) float64 {
	foreign := (after.machine - before.machine) - (after.ours - before.ours)
	return max(0, float64(foreign)/float64(took)/float64(runtime.NumCPU()))
}

// lastRound is what the last round showed, for the progress.
func (r *rig) lastRound(c cells) string {
	var text strings.Builder
	for _, connections := range r.Connections {
		last := c[connections][len(c[connections])-1]
		fmt.Fprintf(&text, "  %d: %.0f/s p99 %.1f ms (others %.0f %%)", connections, last.rate(), ms(last.p99), 100*last.others)
		if last.errors > 0 {
			fmt.Fprintf(&text, " %d errors", last.errors)
		}
	}
	return text.String()
}

func (r *rig) logf(format string, args ...any) { _, _ = fmt.Fprintf(r.Progress, format+"\n", args...) }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
