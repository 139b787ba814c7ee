// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
)

// egressJobs are the probes and lookups that run for the egress watcher: the endpoints of
// one setting, and the names of proxies. It belongs to the goroutine of run; each job has
// a goroutine of its own.
type egressJobs struct {
	*egressWatcher

	ctx             context.Context //nolint:containedctx // of one run
	jobs            sync.WaitGroup
	endpointResults chan endpointResult
	lookupResults   chan map[string]lookup
	generation      uint64 // of the setting that is probed
	cancelProbe     context.CancelFunc
	resolving       bool
}

type endpointResult struct {
	generation uint64
	errors     []string
}

// lookup is the result of resolving a name.
type lookup struct {
	addrs []netip.Addr
	err   error
}

// abortProbe cancels the probe that runs.
func (w *egressJobs) abortProbe() {
	if w.cancelProbe != nil {
		w.cancelProbe()
		w.cancelProbe = nil
	}
}

// startDue starts what is due, and returns when the next job is.
func (w *egressJobs) startDue(now time.Time) (next time.Time) {
	if w.configured && !now.Before(w.nextRead) {
		w.readFiles(now, false)
	}
	if !w.deadline.IsZero() && !now.Before(w.deadline) {
		w.publish(now)
	}
	next = w.nextRead
	if !w.configured {
		next = now.Add(fileReadInterval)
	}
	if w.acceptance.Generation() != w.generation {
		w.abortProbe() // its result does not count any more
	}
	if generation, setting := w.acceptance.NextProbe(now); setting != nil {
		w.startProbe(generation, *setting)
	}
	for _, at := range []time.Time{w.acceptance.State().NextProbe, w.startLookups(now), w.deadline} {
		if !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next
}

// startProbe probes the endpoints of a setting.
func (w *egressJobs) startProbe(generation uint64, s egress.Configuration) {
	probes := make([]endpointProbe, len(s.Endpoints))
	automatic := w.directTargets().NoProxy()
	for i, endpoint := range s.Endpoints {
		u, err := url.Parse(endpoint)
		if err != nil {
			continue // the configuration has no URL that cannot be parsed
		}
		probes[i] = endpointProbe{target: u, proxy: s.Settings.ProxyFor(u, automatic)}
	}
	roots := slices.Concat(w.systemRoots(), s.Roots)
	ctx, cancel := context.WithCancel(w.ctx)
	w.generation, w.cancelProbe = generation, cancel
	w.jobs.Go(func() {
		defer cancel()
		errors := w.prober.probeEndpoints(ctx, probes, roots)
		select {
		case w.endpointResults <- endpointResult{generation, errors}:
		case <-w.ctx.Done():
		}
	})
}

func (w *egressJobs) recordEndpointResult(r endpointResult) {
	now := time.Now()
	if w.acceptance.RecordResults(r.generation, r.errors, now) {
		w.saveAccepted()
	}
	w.publish(now)
}

// startLookups resolves the names that are due, and returns when the next is.
func (w *egressJobs) startLookups(now time.Time) (next time.Time) {
	if w.resolving {
		return time.Time{} // its result wakes run
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
		results := w.prober.resolve(w.ctx, due)
		select {
		case w.lookupResults <- results:
		case <-w.ctx.Done():
		}
	})
	return time.Time{}
}

// saveAddresses has the addresses of the names in use written for the next start.
func (w *egressJobs) saveAddresses(name string, addrs []netip.Addr) {
	w.savedAddresses[name] = addrs
	maps.DeleteFunc(w.savedAddresses, func(other string, _ []netip.Addr) bool { return w.resolutions[other] == nil })
	all := maps.Clone(w.savedAddresses)
	w.save("egress", "list of egress proxy addresses", func() error { return w.store.SaveAddresses(all) })
}

// sameAddresses ignores the order, which differs between responses of a server.
func sameAddresses(a, b []netip.Addr) bool {
	return slices.Equal(slices.SortedFunc(slices.Values(a), netip.Addr.Compare), slices.SortedFunc(slices.Values(b), netip.Addr.Compare))
}

// recordLookups takes over addresses. A name that cannot be resolved any more keeps the
// previous ones.
func (w *egressJobs) recordLookups(results map[string]lookup) {
	w.resolving = false
	now := time.Now()
	for name, l := range results {
		r := w.resolutions[name]
		if r == nil {
			continue // no route uses it any more
		}
		r.err = l.err
		if l.err == nil {
			r.backoff, r.next = 0, now.Add(resolveInterval)
			if !sameAddresses(r.addrs, l.addrs) {
				r.addrs = l.addrs
			}
			if _, notAddress := netip.ParseAddr(name); notAddress != nil && !sameAddresses(w.savedAddresses[name], l.addrs) {
				w.saveAddresses(name, l.addrs)
			}
			continue
		}
		backoff := cmp.Or(r.backoff, minResolveBackoff)
		r.next, r.backoff = now.Add(backoff), min(2*backoff, resolveInterval)
	}
	w.publish(now)
}
