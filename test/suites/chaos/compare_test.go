// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/suites/chaos/model"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/rig"
)

// observation is the host as the kernel and the service's status command show it.
type observation struct {
	table   *rig.Table
	ports   []int
	status  lab.Status
	running bool
	files   []string // differences
}

func (h *host) observe(ctx context.Context, running bool) (o observation, err error) {
	if o.table, err = h.ServiceTable(ctx); err != nil {
		return o, err
	}
	if o.ports, err = h.listening(); err != nil {
		return o, err
	}
	o.running, o.files = h.PID() != 0, h.differFiles()
	if !running {
		return o, nil
	}
	o.status, err = h.Status(ctx)
	return o, err
}

// differ returns the differences between a host and an outcome, as field: want, got.
func (h *host) differ(want model.Outcome, got observation) []string {
	var list []string
	check := func(field string, want, got any) {
		if w, g := fmt.Sprint(want), fmt.Sprint(got); w != g {
			list = append(list, fmt.Sprintf("%s: want %s, got %s", field, w, g))
		}
	}
	check("running", want.Running, got.running)
	list = append(list, got.files...)
	var ports []int
	for _, p := range []uint16{want.Port, want.Metrics} {
		if p != 0 {
			ports = append(ports, int(p))
		}
	}
	slices.Sort(ports)
	seen := got.ports
	if want.Maybe && !slices.Contains(seen, int(want.Metrics)) {
		ports = slices.DeleteFunc(ports, func(p int) bool { return p == int(want.Metrics) })
	}
	check("listening ports", ports, seen)
	check("table", want.Port != 0, got.table != nil)
	if got.table != nil && want.Port != 0 {
		check("sets", want.Held.List(), got.table.Elements)
		check("rules", strings.Join(h.rules[want.Port], "\n"), strings.Join(got.table.Rules, "\n"))
	}
	if !want.Running {
		return list
	}
	check("status.table.present", want.Port != 0, got.status.Table.Present)
	check("status.table.port", want.Port, got.status.Table.Port)
	vips := make(map[netip.Addr]string)
	for _, v := range got.status.VIPs {
		if a, err := netip.ParseAddr(v.Address); err == nil {
			vips[a] = v.State
		}
	}
	check("status.vips", describe(want.VIPs), describe(vips))
	check("status.config.source", want.Source, got.status.Config.Source)
	if c := got.status.Condition(); !slices.Contains(want.Reasons, c.Reason) {
		list = append(list, fmt.Sprintf("reason: want %s, got %s: %s", strings.Join(want.Reasons, " or "), c.Reason,
			c.Message))
	}
	return list
}

func describe(vips map[netip.Addr]string) string {
	var words []string
	for _, a := range slices.SortedFunc(maps.Keys(vips), netip.Addr.Compare) {
		words = append(words, a.String()+"="+vips[a])
	}
	return strings.Join(words, " ")
}

const (
	// pollInterval is the pause between two comparisons.
	pollInterval = 60 * time.Millisecond
	// minPolls is how many comparisons are made after the bound at least. Each starts a program, so they take
	// longer while this machine is busier than at the last starts.
	minPolls = 10
)

// agree waits until the host agrees with the model, and returns the differences that
// remain when the bounds and the slack have passed.
func (h *host) agree(ctx context.Context) (differences []string, err error) {
	due := h.model.Due(time.Now())
	polls := 0 // since then
	for {
		begin := time.Now()
		if begin.After(due) {
			polls++
		}
		h.model.Advance(begin)
		want := h.model.Expect(begin)
		got, err := h.observe(ctx, want[0].Running)
		if err != nil && ctx.Err() != nil {
			return nil, err
		}
		var differences []string
		if err != nil {
			differences = []string{fmt.Sprintf("observation: want one, got %v", err)}
		} else if differences = h.closest(want, got); len(differences) == 0 {
			return nil, nil
		}
		if begin.After(due.Add(h.slack())) && polls >= minPolls {
			for _, o := range want {
				differences = append(differences, "candidate: "+o.String())
			}
			return differences, nil
		}
		if err := sleep(ctx, pollInterval); err != nil {
			return nil, err
		}
	}
}

// closest returns the differences from the outcome with the fewest.
func (h *host) closest(want []model.Outcome, got observation) []string {
	var best []string
	for i, o := range want {
		if differences := h.differ(o, got); i == 0 || len(differences) < len(best) {
			best = differences
		}
	}
	return best
}
