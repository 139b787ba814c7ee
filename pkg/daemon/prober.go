// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/reconcile"
	"github.com/http01-proxyd/http01-proxyd/pkg/status"
	"github.com/http01-proxyd/http01-proxyd/pkg/upstream"
)

const (
	probeSoon    = 5 * time.Second  // while the ingress cannot be reached
	probeLater   = 30 * time.Second // while it can
	probeTimeout = 10 * time.Second // all addresses together, which are asked side by side
)

// prober finds out whether the ingress takes connections, so that the state
// tells before the next challenge does. It looks only while this host holds a
// VIP, and does no more than connect.
type prober struct {
	log   *slog.Logger
	board *status.Board
	probe func(context.Context) []upstream.Reachability
	now   chan struct{}

	mu      sync.Mutex
	targets []netip.AddrPort
}

func newProber(log *slog.Logger, board *status.Board, client *upstream.Client) *prober {
	return &prober{log: log, board: board, probe: client.Probe, now: make(chan struct{}, 1)}
}

// retarget lists the ingress addresses anew; what was known of others is
// forgotten.
func (p *prober) retarget(ingress []netip.Addr, port uint16) {
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
	p.board.SetUpstreams(untried(targets), time.Now())
	p.hurry()
}

// forget takes back what was found: by the time that a VIP comes back it says
// nothing any more.
func (p *prober) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.board.SetUpstreams(untried(p.targets), time.Now())
}

func untried(targets []netip.AddrPort) []status.Upstream {
	upstreams := make([]status.Upstream, len(targets))
	for i, target := range targets {
		upstreams[i].Address = target
	}
	return upstreams
}

// hurry asks for a look at once: a challenge has just failed, or a VIP moved.
func (p *prober) hurry() {
	select {
	case p.now <- struct{}{}:
	default:
	}
}

// run looks now and then until ctx ends.
func (p *prober) run(ctx context.Context) error {
	tick := time.NewTicker(probeSoon)
	defer tick.Stop()
	var last time.Time
	reachable, holding := true, false
	for {
		hurried := false
		select {
		case <-ctx.Done():
			return nil
		case <-p.now:
			hurried = true
		case <-tick.C:
		}
		held := p.holding()
		if holding && !held {
			p.forget()
		}
		holding = held
		due := hurried || !reachable || time.Since(last) >= probeLater
		if !holding || !due {
			continue
		}
		last = time.Now()
		reachable = p.look(ctx)
	}
}

func (p *prober) holding() bool {
	return slices.ContainsFunc(p.board.VIPs(), func(v status.VIP) bool { return v.State == status.VIPHeld })
}

// look probes all addresses and reports whether each took the connection.
func (p *prober) look(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	found := p.probe(ctx)
	if ctx.Err() != nil && len(found) == 0 {
		return false
	}
	all := true
	upstreams := make([]status.Upstream, len(found))
	for i, f := range found {
		upstreams[i] = status.Upstream{Address: f.Addr, Reachable: f.Err == nil, Checked: time.Now()}
		if f.Err != nil {
			all = false
			upstreams[i].Error = f.Err.Error()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !sameTargets(found, p.targets) {
		return false // retargeted meanwhile: this says nothing about the new ones
	}
	before, after := p.board.SetUpstreams(upstreams, time.Now())
	reconcile.LogCondition(p.log, before, after)
	return all
}

func sameTargets(found []upstream.Reachability, targets []netip.AddrPort) bool {
	return slices.EqualFunc(found, targets, func(f upstream.Reachability, t netip.AddrPort) bool { return f.Addr == t })
}
