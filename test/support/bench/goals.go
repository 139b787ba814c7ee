// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"slices"
	"strconv"
)

// goalConnections is the number of connections for goals that are set for one number only.
const goalConnections = 64

// Goal is a goal of the service, and what was measured.
type Goal struct {
	Figure  string
	AtLeast bool // the bound is the lowest value; otherwise the highest
	Bound   float64
	Value   float64
	Unit    string
	Peer    string // the better peer; "" for a figure that is not relative to the better of several
}

// Met reports whether the goal is met.
func (g Goal) Met() bool {
	if g.AtLeast {
		return g.Value >= g.Bound
	}
	return g.Value <= g.Bound
}

// peers returns the proxies that the service is compared with. HAProxy counts with as many
// threads as are faster.
func peers() []proxy {
	return slices.DeleteFunc(Options{}.availableProxies(), func(d proxy) bool {
		return !slices.Contains([]string{"haproxy", "haproxy-1", "nginx"}, d.key)
	})
}

// goals compares the results with the service's goals. It omits figures that were not
// measured.
func goals(o Options, seen map[string]cells, weighed map[string]memory) []Goal {
	var out []Goal
	// The better peer is the one that the service compares worst with, in the median of the
	// rounds. The best of several peers in each round would be biased by their noise.
	better := func(name string, atLeast bool, bound float64, connections int, figure func(cell) float64) {
		goal := Goal{
			Figure:  fmt.Sprintf("%s to the better, %s", name, counted(connections)),
			AtLeast: atLeast, Bound: bound,
		}
		for _, peer := range peers() {
			all := ratios(seen[serviceKey][connections], seen[peer.key][connections], figure)
			if len(all) == 0 {
				continue
			}
			if v := median(all); goal.Peer == "" || atLeast == (v < goal.Value) {
				goal.Value, goal.Peer = v, peer.name
			}
		}
		if goal.Peer != "" {
			out = append(out, goal)
		}
	}
	for _, connections := range []int{16, 64, 256} {
		better("requests/s", true, 1, connections, cell.rate)
	}
	for _, connections := range []int{1, 16, 64, 256} {
		better("p99", false, 1.05, connections, cell.p99ms)
	}
	better("CPU per request", false, 1, goalConnections, cell.cpu)
	secure, plain := seen[serviceKey+"-tls"][goalConnections], seen[serviceKey+"-nginx"][goalConnections]
	if all := ratios(secure, plain, cell.rate); len(all) > 0 {
		figure := "requests/s with TLS to without, " + counted(goalConnections)
		out = append(out, Goal{Figure: figure, AtLeast: true, Bound: 0.85, Value: median(all)})
	}
	if m := weighed[serviceKey]; m.idle > 0 {
		out = append(out, Goal{Figure: "Pss idle", Bound: 12, Value: mib(m.idle), Unit: " MiB"},
			Goal{
				Figure: fmt.Sprintf("Pss with %s connections that sent half a request head", thousands(o.HalfHeads)),
				Bound:  60, Value: mib(m.half), Unit: " MiB",
			})
	}
	return out
}

// GoalTable compares the results with the service's goals.
func (r Report) GoalTable() string {
	g := grid{text: 1}
	if len(r.Goals)+len(r.Costs) == 0 {
		return ""
	}
	g.add("figure", "goal", "measured", "met")
	for _, goal := range r.Goals {
		sign, digits := "≤", 2
		if goal.AtLeast {
			sign = "≥"
		}
		if goal.Unit != "" {
			digits = 1
		}
		measured := number(goal.Value, digits) + goal.Unit
		if goal.Peer != "" {
			measured += " (" + goal.Peer + ")"
		}
		g.add(goal.Figure, fmt.Sprintf("%s %.4g%s", sign, goal.Bound, goal.Unit), measured, yesOrNo(goal.Met()))
	}
	if len(r.Costs) > 0 {
		ratio := r.Costs[0].Ratio
		g.add("connections/s to the API's port with our table, "+r.Costs[0].Environment,
			"contains 1.00", fmt.Sprintf("%.4f–%.4f", ratio.Low, ratio.High), yesOrNo(ratio.Contains(1)))
	}
	return g.String()
}

// VersionRatio compares the service with an earlier one at one number of connections.
type VersionRatio struct {
	Connections    int
	Rounds         int
	Rate, P99, CPU Interval // the service's figure divided by the earlier one's
}

// compareVersions compares the service with the binary of Options.Before. Two rounds at
// least are needed.
func compareVersions(o Options, seen map[string]cells) ([]VersionRatio, error) {
	var out []VersionRatio
	for _, connections := range o.Connections {
		now, before := seen[serviceKey][connections], seen[serviceKey+"-before"][connections]
		if len(before) < 2 {
			continue
		}
		row := VersionRatio{Connections: connections, Rounds: len(now)}
		for _, f := range []struct {
			into   *Interval
			figure func(cell) float64
		}{{&row.Rate, cell.rate}, {&row.P99, cell.p99ms}, {&row.CPU, cell.cpu}} {
			var err error
			if *f.into, err = ratio(figures(now, f.figure), figures(before, f.figure)); err != nil {
				return nil, fmt.Errorf("compare with the earlier http01-proxyd, %s: %w", counted(connections), err)
			}
		}
		out = append(out, row)
	}
	return out, nil
}

// VersionTable returns the comparison with the earlier service.
func (r Report) VersionTable() string {
	g := grid{text: 1}
	if len(r.Versions) == 0 {
		return ""
	}
	g.add("now to before", "connections", "rounds", "ratio", "95 % interval")
	for _, v := range r.Versions {
		for _, f := range []struct {
			name  string
			value Interval
		}{{"requests/s", v.Rate}, {"p99", v.P99}, {"CPU per request", v.CPU}} {
			g.add(f.name, strconv.Itoa(v.Connections), strconv.Itoa(v.Rounds), number(f.value.Mean, 3),
				fmt.Sprintf("%.3f–%.3f", f.value.Low, f.value.High))
		}
	}
	return g.String()
}

func yesOrNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
