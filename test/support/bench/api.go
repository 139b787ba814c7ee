// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
)

// Cost is the effect of the service's table on connections to the API.
type Cost struct {
	Environment   string // other tables of the node
	Pairs         int
	With, Without float64 // connections a second, medians
	Ratio         Interval
}

const (
	apiPort      = 6443
	redirectedTo = 9445 // the target of the node's own redirect
)

// measureCosts measures connections to the API's port in pairs, with the service and
// without it.
func (r *rig) measureCosts(ctx context.Context) ([]Cost, error) {
	onNode, err := r.measureCostAt(ctx, "beside OpenShift's `ocp_nat`", redirectedTo)
	if err != nil {
		return nil, err
	}
	// The first table that translates addresses also enables connection tracking in the
	// kernel.
	if _, err := r.front.Run(ctx, "nft", "delete", "table", "ip", "ocp_nat"); err != nil {
		return nil, err
	}
	alone, err := r.measureCostAt(ctx, "the only table of the host", apiPort)
	return []Cost{onNode, alone}, err
}

// measureCostAt measures with a server on the port where connections to the API end.
func (r *rig) measureCostAt(ctx context.Context, place string, port uint16) (cost Cost, err error) {
	server, err := startEcho(r.front, netip.AddrPortFrom(r.vip, port))
	if err != nil {
		return cost, err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	var with, without []float64
	for pair := range r.Pairs {
		// The order alternates, so that a slowdown of the machine affects both sides.
		for _, on := range []bool{pair%2 == 0, pair%2 == 1} {
			rate, err := r.measureSide(ctx, on)
			if err != nil {
				return cost, fmt.Errorf("pair %d, %s: %w", pair+1, place, err)
			}
			if on {
				with = append(with, rate)
			} else {
				without = append(without, rate)
			}
		}
	}
	cost = Cost{Environment: place, Pairs: r.Pairs, With: median(with), Without: median(without)}
	cost.Ratio, err = ratio(with, without)
	r.logf("port %d with and without the table, %s: %.0f and %.0f connections/s, ratio %.4f, 95 %% interval %.4f to %.4f",
		apiPort, place, cost.With, cost.Without, cost.Ratio.Mean, cost.Ratio.Low, cost.Ratio.High)
	return cost, err
}

// measureSide measures one side of a pair.
func (r *rig) measureSide(ctx context.Context, on bool) (rate float64, err error) {
	if err := flushConnections(r.front); err != nil {
		return 0, err
	}
	if on {
		t, err := startService(variant{})(ctx, r)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, t.stop(context.WithoutCancel(ctx))) }()
	}
	if there, err := r.front.HasServiceTable(ctx); err != nil || there != on {
		return 0, errors.Join(err, fmt.Errorf("the service's table: want %t, have %t", on, there))
	}
	if _, err := r.connectionRate(ctx, r.Side/5); err != nil { // warms caches and waits for the service
		return 0, err
	}
	return r.connectionRate(ctx, r.Side)
}

// callers is the number of concurrent clients.
const callers = 2

// connectionRate runs clients that connect in a loop, and returns connections a second.
func (r *rig) connectionRate(ctx context.Context, length time.Duration) (float64, error) {
	var counts [callers]int
	begin := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for i := range counts {
		group.Go(func() error {
			return r.client.InNamespace(func() error {
				for time.Since(begin) < length {
					if err := ctx.Err(); err != nil {
						return err
					}
					if err := echoOnce(netip.AddrPortFrom(r.vip, apiPort)); err != nil {
						return err
					}
					counts[i]++
				}
				return nil
			})
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	elapsed := time.Since(begin)
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return float64(sum) / elapsed.Seconds(), nil
}
