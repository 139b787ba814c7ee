// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/http01-proxyd/http01-proxyd/test/support/conntrack"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
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
	server, err := r.front.Start(lab.Command{
		Name: "api", Path: r.programs[upstreamProgram], Args: []string{r.vip.String(), strconv.Itoa(int(port)), answer},
	})
	if err != nil {
		return cost, err
	}
	defer func() { err = errors.Join(err, server.Kill(context.WithoutCancel(ctx))) }()
	var with, without []float64
	for pair := range r.Pairs {
		// The order alternates, so that a slowdown of the machine affects both sides.
		for _, on := range []bool{pair%2 == 0, pair%2 == 1} {
			rate, err := r.measureSide(ctx, on, pair)
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
func (r *rig) measureSide(ctx context.Context, on bool, seed int) (rate float64, err error) {
	if err := conntrack.Flush(r.front); err != nil {
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
	const callers = 2
	// The first run warms caches and waits for the server.
	if _, err := r.runClient(ctx, apiPort, callers, r.Side/5, seed); err != nil {
		return 0, err
	}
	l, err := r.runClient(ctx, apiPort, callers, r.Side, seed)
	return l.rate(), err
}
