// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	probeRetryInterval = 5 * time.Second  // while the ingress cannot be reached
	probeInterval      = 30 * time.Second // while it can
	minProbeInterval   = time.Second      // between two looks at the least, whatever clients do
	// probeDelay is how long a look waits after what asked for it: right after
	// a VIP has come, what waits for it comes first.
	probeDelay   = 200 * time.Millisecond
	probeTimeout = 12 * time.Second // the gate's own bound, and a bit
)

// prober finds out whether the ingress takes connections, so that the state
// tells before the next challenge does. It looks only while this host holds a
// VIP, and the gate looks for it: it does no more than connect.
type upstreamCheck struct {
	tracker      *tracker.Tracker
	probe        func(context.Context) []protocol.Reachability
	causeContext func() cause.Context
	trigger      chan struct{}

	mu      sync.Mutex
	targets []netip.AddrPort
}

func newUpstreamCheck(board *tracker.Tracker, probe func(context.Context) []protocol.Reachability, known func() cause.Context) *upstreamCheck {
	return &upstreamCheck{tracker: board, probe: probe, causeContext: known, trigger: make(chan struct{}, 1)}
}

// setTargets lists the ingress addresses anew; what was known of others is
// forgotten.
func (p *upstreamCheck) setTargets(ingress []netip.Addr, port uint16) {
	targets := make([]netip.AddrPort, len(ingress))
	for i, addr := range ingress {
		targets[i] = netip.AddrPortFrom(addr, port)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Equal(targets, p.targets) {
		return
	}
	p.targets = targets
	p.tracker.SetUpstreams(unprobed(targets), time.Now())
	p.requestProbe()
}

// resetResults takes back what was found: by the time that a VIP comes back it says
// nothing any more.
func (p *upstreamCheck) resetResults() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tracker.SetUpstreams(unprobed(p.targets), time.Now())
}

func unprobed(targets []netip.AddrPort) []report.Upstream {
	upstreams := make([]report.Upstream, len(targets))
	for i, target := range targets {
		upstreams[i].Address = target
	}
	return upstreams
}

// requestCheck asks for a look as soon as may be: a challenge could not be delivered,
// or a VIP moved.
func (p *upstreamCheck) requestProbe() {
	select {
	case p.trigger <- struct{}{}:
	default:
	}
}

// run looks now and then until ctx ends.
func (p *upstreamCheck) run(ctx context.Context) error {
	next := time.NewTimer(probeRetryInterval)
	defer next.Stop()
	due := time.Now().Add(probeRetryInterval)
	plan := func(wait time.Duration) {
		due = time.Now().Add(wait)
		next.Reset(wait)
	}
	var last time.Time
	holding := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.trigger:
			// Never later than planned: a stream of wishes must not put it off.
			if wait := max(probeDelay, time.Until(last.Add(minProbeInterval))); wait < time.Until(due) {
				plan(wait)
			}
			continue
		case <-next.C:
		}
		held := p.holdsVIP()
		if holding && !held {
			p.resetResults()
		}
		holding = held
		again := probeInterval
		if holding {
			last = time.Now()
			if !p.probeAll(ctx) {
				again = probeRetryInterval
			}
		}
		plan(again)
	}
}

func (p *upstreamCheck) holdsVIP() bool {
	return slices.ContainsFunc(p.tracker.VIPs(), func(v report.VIP) bool { return v.State == report.VIPHeld })
}

// setObservation probes all addresses and reports whether each took the connection.
func (p *upstreamCheck) probeAll(ctx context.Context) bool {
	bounded, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	found := p.probe(bounded)
	if ctx.Err() != nil {
		return false // what was broken off by our own end says nothing of the ingress
	}
	all := true
	upstreams := make([]report.Upstream, len(found))
	for i, f := range found {
		upstreams[i] = report.Upstream{Address: f.Addr, Reachable: f.Failure == nil, Checked: time.Now()}
		if f.Failure != nil {
			all = false
			upstreams[i].Error = f.Failure.Summary(p.causeContext())
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !sameTargets(found, p.targets) {
		return false // retargeted meanwhile: this says nothing about the new ones
	}
	p.tracker.SetUpstreams(upstreams, time.Now())
	return all
}

func sameTargets(found []protocol.Reachability, targets []netip.AddrPort) bool {
	return slices.EqualFunc(found, targets, func(f protocol.Reachability, t netip.AddrPort) bool { return f.Addr == t })
}
