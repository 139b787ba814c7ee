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
	running         sync.WaitGroup
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
func (j *egressJobs) abortProbe() {
	if j.cancelProbe != nil {
		j.cancelProbe()
		j.cancelProbe = nil
	}
}

// startDue starts what is due, and returns when the next job is.
func (j *egressJobs) startDue(now time.Time) (next time.Time) {
	if j.configured && !now.Before(j.nextRead) {
		j.readFiles(now, false)
	}
	if !j.deadline.IsZero() && !now.Before(j.deadline) {
		j.publish(now)
	}
	next = j.nextRead
	if !j.configured {
		next = now.Add(fileReadInterval)
	}
	if j.acceptance.Generation() != j.generation {
		j.abortProbe() // its result does not count any more
	}
	if generation, setting := j.acceptance.NextProbe(now); setting != nil {
		j.startProbe(generation, *setting)
	}
	for _, at := range []time.Time{j.acceptance.State().NextProbe, j.startLookups(now), j.deadline} {
		if !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next
}

// startProbe probes the endpoints of a setting.
func (j *egressJobs) startProbe(generation uint64, s egress.Configuration) {
	probes := make([]endpointProbe, len(s.Endpoints))
	automatic := j.directTargets().NoProxy()
	for i, endpoint := range s.Endpoints {
		u, err := url.Parse(endpoint)
		if err != nil {
			continue // the configuration has no URL that cannot be parsed
		}
		probes[i] = endpointProbe{target: u, proxy: s.Settings.ProxyFor(u, automatic)}
	}
	roots := slices.Concat(j.systemRoots(), s.Roots)
	ctx, cancel := context.WithCancel(j.ctx)
	j.generation, j.cancelProbe = generation, cancel
	j.running.Go(func() {
		defer cancel()
		errors := j.prober.probeEndpoints(ctx, probes, roots)
		select {
		case j.endpointResults <- endpointResult{generation, errors}:
		case <-j.ctx.Done():
		}
	})
}

func (j *egressJobs) recordEndpointResult(r endpointResult, now time.Time) {
	if j.acceptance.RecordResults(r.generation, r.errors, now) {
		j.saveAccepted()
	}
	j.publish(now)
}

// startLookups resolves the names that are due, and returns when the next is.
func (j *egressJobs) startLookups(now time.Time) (next time.Time) {
	if j.resolving {
		return time.Time{} // its result wakes run
	}
	var due []string
	for name, r := range j.resolutions {
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
	j.resolving = true
	j.running.Go(func() {
		results := j.prober.resolve(j.ctx, due)
		select {
		case j.lookupResults <- results:
		case <-j.ctx.Done():
		}
	})
	return time.Time{}
}

// saveAddresses has the addresses of the names in use written for the next start.
func (j *egressJobs) saveAddresses(name string, addrs []netip.Addr) {
	j.savedAddresses[name] = addrs
	maps.DeleteFunc(j.savedAddresses, func(other string, _ []netip.Addr) bool { return j.resolutions[other] == nil })
	all := maps.Clone(j.savedAddresses)
	j.save("egress", "list of egress proxy addresses", func() error { return j.store.SaveAddresses(all) })
}

// sameAddresses ignores the order, which differs between responses of a server.
func sameAddresses(a, b []netip.Addr) bool {
	return slices.Equal(slices.SortedFunc(slices.Values(a), netip.Addr.Compare), slices.SortedFunc(slices.Values(b), netip.Addr.Compare))
}

// recordLookups takes over addresses. A name that cannot be resolved any more keeps the
// previous ones.
func (j *egressJobs) recordLookups(results map[string]lookup, now time.Time) {
	j.resolving = false
	for name, l := range results {
		r := j.resolutions[name]
		if r == nil {
			continue // no route uses it any more
		}
		r.err = l.err
		if l.err == nil {
			r.backoff, r.next = 0, now.Add(resolveInterval)
			if !sameAddresses(r.addrs, l.addrs) {
				r.addrs = l.addrs
			}
			if _, notAddress := netip.ParseAddr(name); notAddress != nil && !sameAddresses(j.savedAddresses[name], l.addrs) {
				j.saveAddresses(name, l.addrs)
			}
			continue
		}
		backoff := cmp.Or(r.backoff, minResolveBackoff)
		r.next, r.backoff = now.Add(backoff), min(2*backoff, resolveInterval)
	}
	j.publish(now)
}
