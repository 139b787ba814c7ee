// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"math"
)

// goalConnections is the number of connections for the goals.
const goalConnections = 64

// goalRow returns the row of a proxy that the goals refer to, or nil when it was not
// measured.
func (r Report) goalRow(key string) *Row {
	for i := range r.Rows {
		if r.Rows[i].Key == key && r.Rows[i].Connections == goalConnections {
			return &r.Rows[i]
		}
	}
	return nil
}

// best combines the best figures of several proxies.
func (r Report) best(keys ...string) Row {
	out := Row{P99: math.Inf(1), CPU: math.Inf(1)}
	for _, key := range keys {
		if row := r.goalRow(key); row != nil {
			out.Rate, out.P99, out.CPU = max(out.Rate, row.Rate), min(out.P99, row.P99), min(out.CPU, row.CPU)
		}
	}
	return out
}

// GoalTable compares the results with the service's goals. It omits figures that were not
// measured.
func (r Report) GoalTable() string {
	g := grid{text: 1}
	g.add("figure", "goal", "measured")
	own := r.goalRow(serviceKey)
	haproxy := r.best("haproxy", "haproxy-1")
	either := r.best("haproxy", "haproxy-1", "nginx")
	if own != nil && r.goalRow("haproxy") != nil && r.goalRow("nginx") != nil {
		g.add("requests/s relative to the better of HAProxy and nginx, 64 connections", "≥ 1.0", number(own.Rate/either.Rate, 2))
		g.add("p99 relative to the better of the two", "≤ 1.0", number(own.P99/either.P99, 2))
		g.add("CPU per request relative to HAProxy", "≤ 1.0", number(own.CPU/haproxy.CPU, 2))
	}
	if poc := r.goalRow("poc"); own != nil && poc != nil {
		g.add("requests/s relative to the proof of concept", "≥ 4", number(own.Rate/poc.Rate, 2))
	}
	if secure := r.goalRow(serviceKey + "-tls"); secure != nil && secure.ToPlain > 0 {
		g.add("requests/s with TLS to the upstream relative to without", "≥ 0.8", number(secure.ToPlain, 2))
	}
	if before := r.goalRow(serviceKey + "-before"); before != nil && before.ToPlain > 0 {
		g.add("requests/s relative to the earlier http01-proxyd", "≥ 0.98", number(1/before.ToPlain, 3))
	}
	if own != nil && own.Idle > 0 {
		g.add("Pss idle", "≤ 20 MiB", number(own.Idle, 1)+" MiB")
		g.add(fmt.Sprintf("Pss with %s connections that sent half a request head", thousands(r.Options.HalfHeads)),
			"≤ 80 MiB", number(own.Half, 1)+" MiB")
	}
	if len(r.Costs) > 0 {
		ratio := r.Costs[0].Ratio
		g.add("connections/s to the API's port with our table, "+r.Costs[0].Environment,
			"contains 1.00", fmt.Sprintf("%.4f–%.4f", ratio.Low, ratio.High))
	}
	return g.String()
}
