// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/mailbox"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/reconcile"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	probeRetryInterval = 5 * time.Second  // while the ingress is unreachable
	probeInterval      = 30 * time.Second // while it is reachable
	minProbeInterval   = time.Second      // whatever clients do
	// probeDelay is how long a probe waits after its request: right after a VIP
	// moved, the waiting connections come first.
	probeDelay   = 200 * time.Millisecond
	probeTimeout = 12 * time.Second // the timeout of the proxy process, and a margin
)

// UpstreamCheck finds out whether the ingress accepts connections, so that the state
// reports it before the next challenge fails. It probes only while this host holds a VIP.
// The proxy process connects and does nothing else.
type UpstreamCheck struct {
	tracker      *tracker.Tracker
	causes       func() cause.Context // see process.Causes
	Wake         mailbox.Trigger      // requests a probe soon
	EgressFailed mailbox.Trigger      // fires when the proxy process cannot connect to an egress proxy

	mu    sync.Mutex       // taken before the tracker's own
	held  []netip.Addr     // the VIPs of this host
	addrs []netip.AddrPort // the ingress addresses that the proxy process is configured with
}

// NewUpstreamCheck returns an upstream check. causes returns what completes the failures that the
// proxy process reports.
func NewUpstreamCheck(status *tracker.Tracker, causes func() cause.Context) *UpstreamCheck {
	return &UpstreamCheck{tracker: status, causes: causes, Wake: mailbox.NewTrigger(), EgressFailed: mailbox.NewTrigger()}
}

// SetTargets replaces the ingress addresses. Results for others are dropped.
func (c *UpstreamCheck) SetTargets(ingress []netip.Addr, port uint16) {
	addrs := make([]netip.AddrPort, len(ingress))
	for i, addr := range ingress {
		addrs[i] = netip.AddrPortFrom(addr, port)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Equal(addrs, c.addrs) {
		return
	}
	c.addrs = addrs
	c.resetResults()
	c.Wake.Fire()
}

// Observe takes the VIPs and requests a probe when this host gained or lost one.
func (c *UpstreamCheck) Observe(vips []report.VIP) {
	held := reconcile.VIPsInState(vips, report.VIPHeld)
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Equal(held, c.held) {
		return
	}
	c.held = held
	c.Wake.Fire()
	if len(held) == 0 {
		c.resetResults() // they will be outdated when a VIP returns
	}
}

// resetResults drops the results. The caller holds mu.
func (c *UpstreamCheck) resetResults() {
	upstreams := make([]report.Upstream, len(c.addrs))
	for i, addr := range c.addrs {
		upstreams[i].Address = addr
	}
	c.tracker.SetUpstreams(upstreams, time.Now())
}

// setResults reports the results of a probe. It returns false if the addresses or the VIPs
// changed meanwhile.
func (c *UpstreamCheck) setResults(upstreams []report.Upstream) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	same := func(u report.Upstream, addr netip.AddrPort) bool { return u.Address == addr }
	if len(c.held) == 0 || !slices.EqualFunc(upstreams, c.addrs, same) {
		return false
	}
	c.tracker.SetUpstreams(upstreams, time.Now())
	return true
}

func (c *UpstreamCheck) holdsVIP() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.held) > 0
}

// Run probes at intervals and on request until ctx ends. probe makes the proxy process connect to
// each address.
func (c *UpstreamCheck) Run(ctx context.Context, probe func(context.Context) []protocol.Reachability) error {
	due := time.Now().Add(probeRetryInterval)
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.Wake:
			// Never later than scheduled: a stream of requests must not delay it.
			if next := time.Now().Add(max(probeDelay, time.Until(last.Add(minProbeInterval)))); next.Before(due) {
				due = next
			}
			continue
		case <-time.After(time.Until(due)):
		}
		interval := probeInterval
		if c.holdsVIP() {
			last = time.Now()
			if !c.probeAll(ctx, probe) {
				interval = probeRetryInterval
			}
		}
		due = time.Now().Add(interval)
	}
}

// probeAll probes all addresses and reports whether each accepted the connection.
func (c *UpstreamCheck) probeAll(ctx context.Context, probe func(context.Context) []protocol.Reachability) bool {
	bounded, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	results := probe(bounded)
	if ctx.Err() != nil {
		return false // the end of the service canceled it
	}
	all := true
	upstreams := make([]report.Upstream, len(results))
	for i, r := range results {
		upstreams[i] = report.Upstream{Address: r.Addr, Reachable: r.Failure == nil, Checked: time.Now()}
		if r.Failure != nil {
			all = false
			upstreams[i].Cause, upstreams[i].Error = r.Failure.Cause, r.Failure.Summary(c.causes())
			if r.Failure.ViaProxy && r.Failure.Cause == string(findings.EgressUnreachable) {
				c.EgressFailed.Fire()
			}
		}
	}
	return c.setResults(upstreams) && all
}
