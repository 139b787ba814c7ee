// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
)

// egressJobs is what of the egress proxy is being asked just now: the endpoints of
// one setting, and the names of proxies. It belongs to the goroutine of run.
type egressJobs struct {
	*egressWatcher

	ctx             context.Context //nolint:containedctx // of one run
	jobs            sync.WaitGroup
	endpointResults chan endpointResult
	lookupResults   chan map[string]lookup
	probedTurn      uint64 // the turn that is being asked for
	cancelProbe     context.CancelFunc
	resolving       bool
}

type endpointResult struct {
	turn   uint64
	errors []string
}

// lookup is what came of resolving a name.
type lookup struct {
	addrs []netip.Addr
	err   error
}

// abortProbe ends the questions under way.
func (w *egressJobs) abortProbe() {
	if w.cancelProbe != nil {
		w.cancelProbe()
		w.cancelProbe = nil
	}
}

// start does what is due, and returns when something is again.
func (w *egressJobs) startDue(now time.Time) (next time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.configured && !now.Before(w.nextRead) {
		w.readFiles(now, false)
	}
	next = w.nextRead
	if !w.configured {
		next = now.Add(egressReadInterval)
	}
	if turn := w.acceptance.Generation(); turn != w.probedTurn {
		w.abortProbe() // nobody waits for it any more
	}
	if turn, setting := w.acceptance.NextProbe(now); setting != nil {
		w.startProbe(turn, *setting)
	}
	if at := w.acceptance.State().NextProbe; !at.IsZero() && at.Before(next) {
		next = at
	}
	if at := w.startLookups(now); !at.IsZero() && at.Before(next) {
		next = at
	}
	return next
}

// request has the endpoints of a setting asked. It needs mu.
func (w *egressJobs) startProbe(turn uint64, s egress.Configuration) {
	questions := make([]endpointProbe, len(s.Endpoints))
	automatic := w.directTargets().NoProxy()
	for i, endpoint := range s.Endpoints {
		u, err := url.Parse(endpoint)
		if err != nil {
			continue // the configuration has none that cannot be parsed
		}
		questions[i] = endpointProbe{target: u, proxy: s.Settings.ProxyFor(u, automatic)}
	}
	roots := slices.Concat(w.systemRoots(), s.Roots)
	ctx, cancel := context.WithCancel(w.ctx)
	w.probedTurn, w.cancelProbe = turn, cancel
	w.jobs.Go(func() {
		defer cancel()
		why := w.prober.probeEndpoints(ctx, questions, roots)
		select {
		case w.endpointResults <- endpointResult{turn, why}:
		case <-w.ctx.Done():
		}
	})
}

func (w *egressJobs) recordEndpointResult(a endpointResult) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.acceptance.RecordResults(a.turn, a.errors, time.Now()) {
		w.save()
	}
	w.publish()
}

// startLookups has the names resolved that are due, and returns when the next is. It
// needs mu.
func (w *egressJobs) startLookups(now time.Time) (next time.Time) {
	if w.resolving {
		return time.Time{} // its end is heard
	}
	var due []string
	for name, r := range w.resolutions {
		switch {
		case !now.Before(r.next):
			due = append(due, name)
		case next.IsZero() || r.next.Before(next):
			next = r.next
		}
	}
	if len(due) == 0 {
		return next
	}
	w.resolving = true
	w.jobs.Go(func() {
		found := w.prober.resolve(w.ctx, due)
		select {
		case w.lookupResults <- found:
		case <-w.ctx.Done():
		}
	})
	return time.Time{}
}

// saveAddresses keeps the addresses of the names that are in use over a restart. It needs mu.
func (w *egressJobs) saveAddresses(name string, addrs []netip.Addr) {
	w.savedAddresses[name] = addrs
	maps.DeleteFunc(w.savedAddresses, func(other string, _ []netip.Addr) bool { return w.resolutions[other] == nil })
	if err := w.store.SaveAddresses(w.savedAddresses); err != nil {
		w.log.Warn("after a restart the egress proxy's name has to be resolved before challenges succeed", slog.String("event", "egress"), slog.Any("error", err))
	}
}

// sameAddresses compares addresses that servers give in any order.
func sameAddresses(a, b []netip.Addr) bool {
	return slices.Equal(slices.SortedFunc(slices.Values(a), netip.Addr.Compare), slices.SortedFunc(slices.Values(b), netip.Addr.Compare))
}

// recordLookups takes addresses. A name that cannot be resolved any more keeps those that
// it had.
func (w *egressJobs) recordLookups(all map[string]lookup) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resolving = false
	now := time.Now()
	for name, f := range all {
		r := w.resolutions[name]
		if r == nil {
			continue // no ingress address is reached through it any more
		}
		r.err = f.err
		if f.err == nil {
			r.backoff, r.next = 0, now.Add(resolveInterval)
			if !sameAddresses(r.addrs, f.addrs) {
				r.addrs = f.addrs
			}
			if _, literal := netip.ParseAddr(name); literal != nil && !sameAddresses(w.savedAddresses[name], f.addrs) {
				w.saveAddresses(name, f.addrs)
			}
			continue
		}
		wait := cmp.Or(r.backoff, minResolveBackoff)
		r.next, r.backoff = now.Add(wait), min(2*wait, resolveInterval)
	}
	w.publish()
	close(w.resolutionDone)
	w.resolutionDone = make(chan struct{})
}
