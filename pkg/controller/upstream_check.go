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
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
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
	probe   func(context.Context) []protocol.Reachability
	causes  *causeSnapshot
	targets *upstreamTargets
	wake    trigger     // requests a probe soon
	holding atomic.Bool // this host holds a VIP

	egressFailed trigger // fires when the proxy process cannot connect to an egress proxy

	held []report.VIP // of the last observe, by the goroutine that calls it
}

// upstreamTargets are the ingress addresses that the proxy process is configured with, and
// their results in the report.
type upstreamTargets struct {
	tracker *tracker.Tracker
	wake    trigger // requests a probe soon

	mu    sync.Mutex // taken before the tracker's own
	addrs []netip.AddrPort
}

func newUpstreamCheck(probe func(context.Context) []protocol.Reachability, causes *causeSnapshot, targets *upstreamTargets) *upstreamCheck {
	return &upstreamCheck{probe: probe, causes: causes, targets: targets, wake: targets.wake, egressFailed: newTrigger()}
}

// set replaces the ingress addresses. Results for others are dropped.
func (t *upstreamTargets) set(ingress []netip.Addr, port uint16) {
	addrs := make([]netip.AddrPort, len(ingress))
	for i, addr := range ingress {
		addrs[i] = netip.AddrPortFrom(addr, port)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Equal(addrs, t.addrs) {
		return
	}
	t.addrs = addrs
	t.tracker.SetUpstreams(unprobed(addrs), time.Now())
	t.wake.fire()
}

// observe takes the VIPs and requests a probe when this host has gained or lost one. One goroutine
// calls it.
func (c *upstreamCheck) observe(vips []report.VIP) {
	held := slices.DeleteFunc(slices.Clone(vips), func(v report.VIP) bool { return v.State != report.VIPHeld })
	c.holding.Store(len(held) > 0)
	if !slices.EqualFunc(held, c.held, func(a, b report.VIP) bool { return a.Address == b.Address }) {
		c.held = held
		c.wake.fire()
	}
}

// resetResults drops the results: they will be outdated when a VIP returns.
func (t *upstreamTargets) resetResults() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tracker.SetUpstreams(unprobed(t.addrs), time.Now())
}

// setResults reports the results of a probe. It returns false if the addresses have changed
// meanwhile.
func (t *upstreamTargets) setResults(upstreams []report.Upstream) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.EqualFunc(upstreams, t.addrs, func(u report.Upstream, addr netip.AddrPort) bool { return u.Address == addr }) {
		return false
	}
	t.tracker.SetUpstreams(upstreams, time.Now())
	return true
}

func unprobed(targets []netip.AddrPort) []report.Upstream {
	upstreams := make([]report.Upstream, len(targets))
	for i, target := range targets {
		upstreams[i].Address = target
	}
	return upstreams
}

// run probes at intervals and on request until ctx ends.
func (c *upstreamCheck) run(ctx context.Context) error {
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
		case <-c.wake:
			// Never later than scheduled: a stream of requests must not delay it.
			if wait := max(probeDelay, time.Until(last.Add(minProbeInterval))); wait < time.Until(due) {
				schedule(wait)
			}
			continue
		case <-next.C:
		}
		holding := c.holding.Load()
		if held && !holding {
			c.targets.resetResults()
		}
		held = holding
		interval := probeInterval
		if holding {
			last = time.Now()
			if !c.probeAll(ctx) {
				interval = probeRetryInterval
			}
		}
		schedule(interval)
	}
}

// probeAll probes all addresses and reports whether each accepted the connection.
func (c *upstreamCheck) probeAll(ctx context.Context) bool {
	bounded, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	results := c.probe(bounded)
	if ctx.Err() != nil {
		return false // the end of the service has canceled it
	}
	all := true
	upstreams := make([]report.Upstream, len(results))
	for i, r := range results {
		upstreams[i] = report.Upstream{Address: r.Addr, Reachable: r.Failure == nil, Checked: time.Now()}
		if r.Failure != nil {
			all = false
			upstreams[i].Error = r.Failure.Summary(c.causes.get())
			if r.Failure.ViaProxy && r.Failure.Cause == string(findings.EgressUnreachable) {
				c.egressFailed.fire()
			}
		}
	}
	return c.targets.setResults(upstreams) && all
}
