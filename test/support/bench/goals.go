// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"math"
)

// goalConnections is under how many the goals are set.
const goalConnections = 64

// goalRow is the row of a front door that goals are about; nil when it was not
// measured.
func (r Report) goalRow(key string) *Row {
	for i := range r.Rows {
		if r.Rows[i].Key == key && r.Rows[i].Connections == goalConnections {
			return &r.Rows[i]
		}
	}
	return nil
}

// best joins the best figures of front doors, each from whichever has it.
func (r Report) best(keys ...string) Row {
	out := Row{P99: math.Inf(1), CPU: math.Inf(1)}
	for _, key := range keys {
		if row := r.goalRow(key); row != nil {
			out.Rate, out.P99, out.CPU = max(out.Rate, row.Rate), min(out.P99, row.P99), min(out.CPU, row.CPU)
		}
	}
	return out
}

// GoalTable sets what was measured beside what the service is to reach. It
// leaves out what was not measured.
func (r Report) GoalTable() string {
	g := grid{text: 1}
	g.add("figure", "goal", "measured")
	own := r.goalRow(serviceKey)
	haproxy := r.best("haproxy", "haproxy-1")
	either := r.best("haproxy", "haproxy-1", "nginx")
	if own != nil && r.goalRow("haproxy") != nil && r.goalRow("nginx") != nil {
		g.add("requests/s to the better of HAProxy and nginx, 64 connections", "≥ 1.0", number(own.Rate/either.Rate, 2))
		g.add("p99 to the better of the two", "≤ 1.0", number(own.P99/either.P99, 2))
		g.add("CPU a request to HAProxy's", "≤ 1.0", number(own.CPU/haproxy.CPU, 2))
	}
	if poc := r.goalRow("poc"); own != nil && poc != nil {
		g.add("requests/s to the proof of concept's", "≥ 4", number(own.Rate/poc.Rate, 2))
	}
	if secure := r.goalRow(serviceKey + "-tls"); secure != nil && secure.ToPlain > 0 {
		g.add("requests/s with TLS to the upstream to those without", "≥ 0.8", number(secure.ToPlain, 2))
	}
	if before := r.goalRow(serviceKey + "-before"); before != nil && before.ToPlain > 0 {
		g.add("requests/s to those of the http01-proxyd before", "≥ 0.98", number(1/before.ToPlain, 3))
	}
	if own != nil && own.Idle > 0 {
		g.add("Pss idle", "≤ 20 MiB", number(own.Idle, 1)+" MiB")
		g.add(fmt.Sprintf("Pss with %s connections that have sent half a head", thousands(r.Options.HalfHeads)),
			"≤ 80 MiB", number(own.Half, 1)+" MiB")
	}
	if len(r.Costs) > 0 {
		ratio := r.Costs[0].Ratio
		g.add("connections/s to the API's port with our table, "+r.Costs[0].Place,
			"contains 1.00", fmt.Sprintf("%.4f–%.4f", ratio.Low, ratio.High))
	}
	return g.String()
}
