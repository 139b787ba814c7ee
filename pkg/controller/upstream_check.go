// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	probeRetryInterval = 5 * time.Second  // while the ingress is unreachable
	probeInterval      = 30 * time.Second // while it is reachable
	minProbeInterval   = time.Second      // whatever clients do
	// probeDelay is how long a probe waits after its request: right after a VIP has
	// moved, the waiting connections come first.
	probeDelay   = 200 * time.Millisecond
	probeTimeout = 12 * time.Second // the timeout of the proxy process, and a margin
)

// upstreamCheck finds out whether the ingress accepts connections, so that the state
// reports it before the next challenge fails. It probes only while this host holds a VIP.
// The proxy process connects and does nothing else.
type upstreamCheck struct {
	tracker *tracker.Tracker
	probe   func(context.Context) []protocol.Reachability
	causes  *causeSnapshot
	wake    trigger     // requests a probe soon
	holding atomic.Bool // this host holds a VIP

	mu      sync.Mutex // taken before the tracker's own
	targets []netip.AddrPort
}

func newUpstreamCheck(tracker *tracker.Tracker, probe func(context.Context) []protocol.Reachability, causes *causeSnapshot, wake trigger) *upstreamCheck {
	return &upstreamCheck{tracker: tracker, probe: probe, causes: causes, wake: wake}
}

// setTargets replaces the ingress addresses. Results for others are dropped.
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
	p.wake.fire()
}

// observe takes the VIPs and requests a probe when this host has gained or lost one.
func (p *upstreamCheck) observe(vips []report.VIP) {
	holding := slices.ContainsFunc(vips, func(v report.VIP) bool { return v.State == report.VIPHeld })
	if p.holding.Swap(holding) != holding {
		p.wake.fire()
	}
}

// resetResults drops the results: they will be outdated when a VIP returns.
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

// run probes at intervals and on request until ctx ends.
func (p *upstreamCheck) run(ctx context.Context) error {
	next := time.NewTimer(probeRetryInterval)
	defer next.Stop()
	due := time.Now().Add(probeRetryInterval)
	schedule := func(wait time.Duration) {
		due = time.Now().Add(wait)
		next.Reset(wait)
	}
	var last time.Time
	held := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
			// Never later than scheduled: a stream of requests must not delay it.
			if wait := max(probeDelay, time.Until(last.Add(minProbeInterval))); wait < time.Until(due) {
				schedule(wait)
			}
			continue
		case <-next.C:
		}
		holding := p.holding.Load()
		if held && !holding {
			p.resetResults()
		}
		held = holding
		interval := probeInterval
		if holding {
			last = time.Now()
			if !p.probeAll(ctx) {
				interval = probeRetryInterval
			}
		}
		schedule(interval)
	}
}

// probeAll probes all addresses and reports whether each accepted the connection.
func (p *upstreamCheck) probeAll(ctx context.Context) bool {
	bounded, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	results := p.probe(bounded)
	if ctx.Err() != nil {
		return false // the end of the service has canceled it
	}
	all := true
	upstreams := make([]report.Upstream, len(results))
	for i, r := range results {
		upstreams[i] = report.Upstream{Address: r.Addr, Reachable: r.Failure == nil, Checked: time.Now()}
		if r.Failure != nil {
			all = false
			upstreams[i].Error = r.Failure.Summary(p.causes.get())
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !sameTargets(results, p.targets) {
		return false // the targets have changed meanwhile
	}
	p.tracker.SetUpstreams(upstreams, time.Now())
	return all
}

func sameTargets(results []protocol.Reachability, targets []netip.AddrPort) bool {
	return slices.EqualFunc(results, targets, func(r protocol.Reachability, t netip.AddrPort) bool { return r.Addr == t })
}
