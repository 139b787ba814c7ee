// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/flood"
)

// FloodOptions configures a flood.
type FloodOptions struct {
	Connections int           // concurrent connections, at least MinFloodConnections
	PerSecond   int           // maximum opened a second by all processes, after the first of each
	For         time.Duration // duration of the CAs' requests after all connections were opened
}

// UnitLimits returns a command that starts the service with the descriptor limit of its
// unit.
func UnitLimits() []string { return []string{"prlimit", "--nofile=16384:16384"} }

// unitTimerSlack is TimerSlackNSec= of the unit.
const unitTimerSlack = 5 * time.Millisecond

// UnitEnvironment returns the unit's environment for the Go runtime.
func UnitEnvironment() []string { return []string{"GOMEMLIMIT=240MiB"} }

// FloodReport contains the results of a flood.
type FloodReport struct {
	Hostile  []flood.HostileReport // of each process
	Honest   flood.CAReport        // a CA with its own addresses
	Shared   flood.CAReport        // a CA that shares addresses with the flood, as behind NAT
	Before   Footprint             // idle service
	Peak     Footprint             // maxima during the flood
	After    Footprint             // after the flood
	Rejected map[string]int        // as the service counts
}

// Addresses of a flood, all on the internet: 198.18.0.0/15 is reserved for such tests (RFC
// 2544), and the /48 belongs to the lab.
const (
	floodNetwork4 = "198.18.0.0/15"
	floodNetwork6 = "fd4e:5f2a:9c0f::/48"
)

// MinFloodConnections is enough for the four sources of the first process to fill the waiting
// room (2048 places) and the connections that wait to be accepted.
const MinFloodConnections = 4_000

const (
	// perProcess is the number of connections per process, whose descriptors may be limited
	// to 20,000.
	perProcess = 12_500
	// floodSources is the number of sources in each family; for IPv6 they are /64 networks.
	floodSources = 256
	// heavySources is the number of sources of the first process, which exceed the limit
	// per source.
	heavySources = 4
	// perspectives is the least number from 15 December 2026 on: one primary and five remote ones (CA/Browser Forum,
	// Baseline Requirements, 3.2.2.9).
	perspectives = 6
	// hostileNiceness gives the service the CPU first, because real attackers use their own
	// CPUs. With 19 the flood gets no CPU time on a busy machine.
	hostileNiceness = 10
	// floodTimeout bounds the wait for a process with low priority. Beside four busy loops,
	// 12,500 connections took 37 s.
	floodTimeout = 3 * time.Minute
)

// Flood starts processes on the internet that open connections to the API VIP and never send a
// whole request head, while CAs request a challenge. The service must run on the VIP holder,
// and the calling program must begin with flood.Main. It returns after the flood.
func (l *Lab) Flood(ctx context.Context, s *Service, o FloodOptions) (report FloodReport, err error) {
	if o.Connections < MinFloodConnections {
		return report, fmt.Errorf("cannot flood with %d connections: no source exceeds its limit. Use at least %d",
			o.Connections, MinFloodConnections)
	}
	if err := l.routeFlood(ctx); err != nil {
		return report, err
	}
	solver, ca, err := l.solveRepeatedly(ctx, "flooded."+l.Domain)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, solver.Remove(context.WithoutCancel(ctx))) }()
	ca.Every = 250 * time.Millisecond

	if report.Before, err = FootprintOf(s.PID()); err != nil {
		return report, err
	}
	watch := watchFootprint(ctx, s.PID())
	hostile, err := l.floodClients(l.hostile(o))
	defer func() { err = errors.Join(err, killRemaining(hostile)) }()
	if err != nil {
		return report, err
	}
	if err := beginFlood(ctx, s, hostile); err != nil {
		return report, err
	}
	honest, shared := ca, ca
	honest.Perspectives = flood.Range{First: netip.MustParseAddr("198.19.0.1"), Count: perspectives}
	shared.Perspectives = flood.Range{First: netip.MustParseAddr("198.18.0.0"), Count: heavySources}
	cas, err := l.floodClients([]string{honest.Environment(), shared.Environment()})
	defer func() { err = errors.Join(err, killRemaining(cas)) }()
	if err != nil {
		return report, err
	}
	for _, p := range hostile { // low priority delays them on a busy machine
		if err := awaitFlood(ctx, p, "opened its connections",
			func(r flood.HostileReport) bool { return r.Opened > 0 }); err != nil {
			return report, err
		}
	}
	if err := sleepContext(ctx, o.For); err != nil {
		return report, err
	}
	if report.Honest, err = endClient[flood.CAReport](ctx, cas[0]); err != nil {
		return report, err
	}
	if report.Shared, err = endClient[flood.CAReport](ctx, cas[1]); err != nil {
		return report, err
	}
	for _, p := range hostile {
		r, err := endClient[flood.HostileReport](ctx, p)
		if err != nil {
			return report, err
		}
		report.Hostile = append(report.Hostile, r)
	}
	if report.Peak, err = watch(); err != nil {
		return report, err
	}
	return report, l.afterFlood(ctx, s, &report)
}

// solveRepeatedly starts a solver for a name, and returns a CA that requests its challenge from the
// IPv4 VIP. The caller must Remove the solver.
func (l *Lab) solveRepeatedly(ctx context.Context, name string) (*Solver, flood.CA, error) {
	const token, key = "a-token-requested-during-a-flood", "a-token-requested-during-a-flood.key"
	solver, err := l.Solve(ctx, name, token, key)
	return solver, flood.CA{Server: l.web4(), Host: name, Path: acmePrefix + token, Want: key}, err
}

// beginFlood lets the first process begin alone, whose few sources open many connections. The
// others begin when the service resets one of these for its source. Beside them, maxConnections
// evicts connections before a source reaches its own limit. For the same reason, the first
// process runs with the priority of the service until then.
func beginFlood(ctx context.Context, s *Service, hostile []*Process) error {
	for _, p := range hostile {
		if err := awaitFlood(ctx, p, "started", func(flood.HostileReport) bool { return true }); err != nil {
			return err
		}
	}
	before, err := s.Status(ctx)
	if err != nil {
		return err
	}
	first, others := hostile[0], hostile[1:]
	if err := first.Signal(flood.Begin); err != nil {
		return err
	}
	err = Eventually(ctx, "a connection that is reset for its source", func(ctx context.Context) error {
		now, err := s.Status(ctx)
		if err == nil && now.Challenges.Rejected[sourceLimit] == before.Challenges.Rejected[sourceLimit] {
			err = fmt.Errorf("rejected: %v", now.Challenges.Rejected)
		}
		return errors.Join(err, first.Alive())
	})
	if err != nil {
		return err
	}
	for _, p := range hostile {
		if err := lowerPriority(p); err != nil {
			return err
		}
	}
	for _, p := range others {
		if err := p.Signal(flood.Begin); err != nil {
			return err
		}
	}
	return nil
}

// sourceLimit is the rejection of a source with more connections than limits.perSource allows.
const sourceLimit = "source-limit"

// awaitFlood waits for a report of a hostile process.
func awaitFlood(ctx context.Context, p *Process, what string, has func(flood.HostileReport) bool) error {
	return Within(ctx, floodTimeout, "a process of the flood that has "+what, func(context.Context) error {
		r, err := flood.ReadReport[flood.HostileReport](p.Tail(1))
		if err == nil && !has(r) {
			err = fmt.Errorf("it reports %+v", r)
		}
		return errors.Join(err, p.Alive())
	})
}

// lowerPriority lowers the priority of a process below the priority of this program.
func lowerPriority(p *Process) error {
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err == nil {
		// The system call returns 20 minus the niceness (getpriority(2)).
		err = unix.Setpriority(unix.PRIO_PGRP, p.PID(), 20-own+hostileNiceness)
	}
	if err != nil {
		return fmt.Errorf("lower the priority of %s: %w", p.Name, err)
	}
	return nil
}

// afterFlood waits until the service releases the flood's descriptors.
func (l *Lab) afterFlood(ctx context.Context, s *Service, report *FloodReport) error {
	err := Eventually(ctx, "the flood's descriptors closed", func(context.Context) error {
		var err error
		if report.After, err = FootprintOf(s.PID()); err != nil {
			return err
		}
		if report.After.Descriptors > report.Before.Descriptors+10 { // some pooled connections to the router remain
			return fmt.Errorf("%d are open, %d before", report.After.Descriptors, report.Before.Descriptors)
		}
		return nil
	})
	if err != nil {
		return err
	}
	seen, err := s.Status(ctx)
	report.Rejected = seen.Challenges.Rejected
	return err
}

// routeFlood routes the flood's addresses to the internet node.
func (l *Lab) routeFlood(ctx context.Context) error {
	for _, net := range []struct {
		prefix string
		via    netip.Addr
	}{{floodNetwork4, l.internet.V4}, {floodNetwork6, l.internet.V6}} {
		// Makes every address of the prefix local, so that it can be bound.
		if _, err := l.Internet.Run(ctx, "ip", "route", "replace", "local", net.prefix, "dev", "lo"); err != nil {
			return fmt.Errorf("give the internet the flood's addresses: %w", err)
		}
		if _, err := l.Gateway.Run(ctx, "ip", "route", "replace", net.prefix, "via", net.via.String()); err != nil {
			return fmt.Errorf("route the flood's addresses: %w", err)
		}
	}
	return nil
}

func (l *Lab) web4() netip.AddrPort { return netip.AddrPortFrom(l.API.V4, 80) }

// hostile returns the environment of each process of the flood.
func (l *Lab) hostile(o FloodOptions) []string {
	many := []flood.Range{
		{First: netip.MustParseAddr("198.18.1.0"), Count: floodSources},
		{First: netip.MustParseAddr("fd4e:5f2a:9c0f::1"), Count: floodSources},
	}
	heavy := []flood.Range{{First: netip.MustParseAddr("198.18.0.0"), Count: heavySources}}
	processes := (o.Connections + perProcess - 1) / perProcess
	var all []string
	for i := range processes {
		h := flood.Hostile{
			Sources: many,
			Server4: l.web4(), Server6: netip.AddrPortFrom(l.API.V6, 80),
			Connections: o.Connections / processes, PerSecond: o.PerSecond / processes,
		}
		if i == 0 {
			h.Sources = heavy
		}
		all = append(all, h.Environment())
	}
	return all
}

func (l *Lab) floodClients(environments []string) (all []*Process, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	for i, env := range environments {
		p, err := l.Internet.Start(Command{
			Name: "flood-" + strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + strconv.Itoa(i),
			Path: self, Env: []string{env},
		})
		if err != nil {
			return all, err
		}
		all = append(all, p)
	}
	return all, nil
}

// killRemaining kills the processes that are still running.
func killRemaining(all []*Process) error {
	var errs []error
	for _, p := range all {
		select {
		case <-p.Exited():
		default:
			errs = append(errs, p.Kill(context.Background()))
		}
		p.drop()
	}
	return errors.Join(errs...)
}

// endClient stops a client and reads its report.
func endClient[R flood.HostileReport | flood.CAReport](ctx context.Context, p *Process) (R, error) {
	// The report needs CPU time, which low priority may deny.
	err := unix.Setpriority(unix.PRIO_PGRP, p.PID(), 0)
	if err = errors.Join(err, p.Stop(ctx)); err != nil {
		var none R
		return none, err
	}
	return flood.ReadReport[R](p.Tail(1))
}

func sleepContext(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// HostileTotal adds up the reports of the hostile processes.
func (r FloodReport) HostileTotal() (sum flood.HostileReport) {
	for _, h := range r.Hostile {
		sum.Opened += h.Opened
		sum.Established += h.Established
		sum.Refused += h.Refused
		sum.Reset += h.Reset
		sum.Answered += h.Answered
		sum.Peak += h.Peak
	}
	return sum
}

// String formats the report.
func (r FloodReport) String() string {
	var b strings.Builder
	h := r.HostileTotal()
	fmt.Fprintf(&b,
		"flood    %d connections at once at the peak, by %d processes: %d opened, %d established, %d reset, %d ended, "+
			"%d refused\n",
		h.Peak, len(r.Hostile), h.Opened, h.Established, h.Reset, h.Answered, h.Refused)
	for _, ca := range []struct {
		what string
		flood.CAReport
	}{{"honest   from other addresses", r.Honest}, {"honest   from addresses that flood", r.Shared}} {
		fmt.Fprintf(&b, "%s: %d requests, %d lost; p50 %v, p99 %v, max %v\n", ca.what, ca.Requests, ca.Lost,
			ca.P50.Round(100*time.Microsecond), ca.P99.Round(100*time.Microsecond), ca.Max.Round(100*time.Microsecond))
		for _, why := range ca.Errors {
			fmt.Fprintf(&b, "         lost: %s\n", why)
		}
	}
	for _, f := range []struct {
		when string
		Footprint
	}{{"before", r.Before}, {"at the peak", r.Peak}, {"afterwards", r.After}} {
		fmt.Fprintf(&b, "service  %s: %s\n", f.when, f.Footprint)
	}
	var kinds []string
	for kind, n := range r.Rejected {
		kinds = append(kinds, fmt.Sprintf("%d %s", n, kind))
	}
	slices.Sort(kinds)
	fmt.Fprintf(&b, "service  rejected: %s\n", strings.Join(kinds, ", "))
	return b.String()
}
