// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/conntrack"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// Cost is the effect of the service's table on connections to the API.
type Cost struct {
	Environment   string // other tables of the node
	Pairs         int
	With, Without float64 // connections a second, medians
	Ratio         Interval

	Packets, Examined float64 // of a connection: received by the node, and examined by the table's chains
}

const (
	apiPort      = 6443
	redirectedTo = 9445 // the target of the node's own redirect
	apiCallers   = 2

	receivedPackets = `
table inet bench {
	chain received {
		type filter hook prerouting priority raw
		tcp dport 6443 counter
	}
}
`
)

var (
	tableFlags    = regexp.MustCompile(`(?m)^\tflags .*\n`)
	chainType     = regexp.MustCompile(`(?m)^\t\ttype .*$`)
	packetCounter = regexp.MustCompile(`counter packets (\d+)`)
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

// measureCostAt measures with a server on the port where connections to the API end. The sides
// of a pair are short and follow each other at once: they see the same other load on the machine.
func (r *rig) measureCostAt(ctx context.Context, place string, port uint16) (cost Cost, err error) {
	server, err := r.front.Start(lab.Command{
		Name: "api", Path: r.programs[upstreamProgram], Args: []string{r.vip.String(), strconv.Itoa(int(port)), answer},
	})
	if err != nil {
		return cost, err
	}
	defer func() { err = errors.Join(err, server.Kill(context.WithoutCancel(ctx))) }()
	table, err := r.serviceTable(ctx)
	if err != nil {
		return cost, err
	}
	defer func() { err = errors.Join(err, r.loadTable(context.WithoutCancel(ctx), "")) }()
	const warmUp = time.Second // it also waits for the server
	if _, err := r.runClient(ctx, apiPort, apiCallers, warmUp, 0); err != nil {
		return cost, err
	}
	var with, without []float64
	for pair := range r.Pairs {
		// The order alternates, so that a slowdown of the machine affects both sides.
		for _, on := range []bool{pair%2 == 0, pair%2 == 1} {
			side, rates := "", &without
			if on {
				side, rates = table, &with
			}
			l, err := r.measureSide(ctx, side, pair)
			if err != nil {
				return cost, fmt.Errorf("pair %d, %s: %w", pair+1, place, err)
			}
			*rates = append(*rates, l.rate())
		}
	}
	cost = Cost{Environment: place, Pairs: r.Pairs, With: median(with), Without: median(without)}
	if cost.Ratio, err = ratio(with, without); err != nil {
		return cost, err
	}
	cost.Packets, cost.Examined, err = r.countPackets(ctx, table)
	r.logf("port %d with and without the table, %s: %.0f and %.0f connections/s, ratio %.4f, "+
		"95 %% interval %.4f to %.4f, the table examines %.2f of %.2f packets of a connection",
		apiPort, place, cost.With, cost.Without, cost.Ratio.Mean, cost.Ratio.Low, cost.Ratio.High,
		cost.Examined, cost.Packets)
	return cost, err
}

// serviceTable returns the table that the service creates, as text for nft. Another program can
// load it: it has no owner.
func (r *rig) serviceTable(ctx context.Context) (text string, err error) {
	t, err := startService(variant{})(ctx, r)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, t.stop(context.WithoutCancel(ctx))) }()
	text, err = r.front.Run(ctx, "nft", "-s", "list", "table", lab.ServiceTable)
	return tableFlags.ReplaceAllString(text, ""), err
}

// loadTable replaces the service's table by another one, or removes it.
func (r *rig) loadTable(ctx context.Context, text string) error {
	remove := "add table " + lab.ServiceTable + "\ndelete table " + lab.ServiceTable + "\n"
	_, err := r.front.Input(ctx, remove+text, "nft", "-f", "-")
	return err
}

// measureSide measures connections with a table.
func (r *rig) measureSide(ctx context.Context, table string, seed int) (load, error) {
	if err := r.loadTable(ctx, table); err != nil {
		return load{}, err
	}
	if err := conntrack.Flush(r.front); err != nil {
		return load{}, err
	}
	return r.runClient(ctx, apiPort, apiCallers, r.Side, seed)
}

// countPackets returns how many packets of a connection the node receives, and how many of them
// the chains of the table examine.
func (r *rig) countPackets(ctx context.Context, table string) (received, examined float64, err error) {
	counting := chainType.ReplaceAllString(table, "${0}\n\t\tcounter") + receivedPackets
	l, err := r.measureSide(ctx, counting, r.Pairs)
	if err != nil {
		return 0, 0, err
	}
	all, err := r.sumCounters(ctx, "inet bench")
	if err != nil {
		return 0, 0, err
	}
	some, err := r.sumCounters(ctx, lab.ServiceTable)
	if err != nil {
		return 0, 0, err
	}
	_, err = r.front.Run(ctx, "nft", "delete", "table", "inet", "bench")
	return all / float64(l.requests), some / float64(l.requests), err
}

// sumCounters returns the packets that all rules of a table counted.
func (r *rig) sumCounters(ctx context.Context, table string) (sum float64, err error) {
	text, err := r.front.Run(ctx, "nft", "list", "table", table)
	if err != nil {
		return 0, err
	}
	for _, found := range packetCounter.FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(found[1])
		if err != nil {
			return 0, fmt.Errorf("read a counter: %w", err)
		}
		sum += float64(n)
	}
	return sum, nil
}
