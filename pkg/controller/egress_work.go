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

// egressWork is what of the egress proxy is being asked just now: the endpoints of
// one setting, and the names of proxies. It belongs to the goroutine of run.
type egressWork struct {
	*egressWatch

	ctx       context.Context //nolint:containedctx // of one run
	all       sync.WaitGroup
	answers   chan answersOfTurn
	found     chan map[string]found
	asking    uint64 // the turn that is being asked for
	stop      context.CancelFunc
	resolving bool
}

type answersOfTurn struct {
	turn uint64
	why  []string
}

// found is what came of resolving a name.
type found struct {
	addrs []netip.Addr
	err   error
}

// abort ends the questions under way.
func (w *egressWork) abort() {
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
}

// begin does what is due, and returns when something is again.
func (w *egressWork) begin(now time.Time) (next time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known && !now.Before(w.again) {
		w.look(now, false)
	}
	next = w.again
	if !w.known {
		next = now.Add(egressLook)
	}
	if turn := w.acceptance.Turn(); turn != w.asking {
		w.abort() // nobody waits for it any more
	}
	if turn, setting := w.acceptance.Ask(now); setting != nil {
		w.ask(turn, *setting)
	}
	if at := w.acceptance.State().Next; !at.IsZero() && at.Before(next) {
		next = at
	}
	if at := w.resolve(now); !at.IsZero() && at.Before(next) {
		next = at
	}
	return next
}

// ask has the endpoints of a setting asked. It needs mu.
func (w *egressWork) ask(turn uint64, s egress.Setting) {
	questions := make([]endpointQuestion, len(s.Endpoints))
	automatic := w.around().NoProxy()
	for i, endpoint := range s.Endpoints {
		u, err := url.Parse(endpoint)
		if err != nil {
			continue // the configuration has none that cannot be parsed
		}
		questions[i] = endpointQuestion{target: u, proxy: s.Settings.Proxy(u, automatic)}
	}
	roots := slices.Concat(w.systemRoots(), s.Roots)
	ctx, cancel := context.WithCancel(w.ctx)
	w.asking, w.stop = turn, cancel
	w.all.Go(func() {
		defer cancel()
		why := w.network.ask(ctx, questions, roots)
		select {
		case w.answers <- answersOfTurn{turn, why}:
		case <-w.ctx.Done():
		}
	})
}

func (w *egressWork) heard(a answersOfTurn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.acceptance.Heard(a.turn, a.why, time.Now()) {
		w.save()
	}
	w.publish()
}

// resolve has the names resolved that are due, and returns when the next is. It
// needs mu.
func (w *egressWork) resolve(now time.Time) (next time.Time) {
	if w.resolving {
		return time.Time{} // its end is heard
	}
	var due []string
	for name, r := range w.names {
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
	w.all.Go(func() {
		found := w.network.resolve(w.ctx, due)
		select {
		case w.found <- found:
		case <-w.ctx.Done():
		}
	})
	return time.Time{}
}

// remember keeps the addresses of the names that are in use over a restart. It needs mu.
func (w *egressWork) remember(name string, addrs []netip.Addr) {
	w.last[name] = addrs
	maps.DeleteFunc(w.last, func(other string, _ []netip.Addr) bool { return w.names[other] == nil })
	if err := w.kept.SaveAddresses(w.last); err != nil {
		w.log.Warn("after a restart the egress proxy's name has to be resolved before challenges succeed", slog.String("event", "egress"), slog.Any("error", err))
	}
}

// sameSet compares addresses that servers give in any order.
func sameSet(a, b []netip.Addr) bool {
	return slices.Equal(slices.SortedFunc(slices.Values(a), netip.Addr.Compare), slices.SortedFunc(slices.Values(b), netip.Addr.Compare))
}

// resolved takes addresses. A name that cannot be resolved any more keeps those that
// it had.
func (w *egressWork) resolved(all map[string]found) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resolving = false
	now := time.Now()
	for name, f := range all {
		r := w.names[name]
		if r == nil {
			continue // no ingress address is reached through it any more
		}
		r.err = f.err
		if f.err == nil {
			r.wait, r.next = 0, now.Add(resolveEvery)
			if !sameSet(r.addrs, f.addrs) {
				r.addrs = f.addrs
			}
			if _, literal := netip.ParseAddr(name); literal != nil && !sameSet(w.last[name], f.addrs) {
				w.remember(name, f.addrs)
			}
			continue
		}
		wait := cmp.Or(r.wait, resolveSoon)
		r.next, r.wait = now.Add(wait), min(2*wait, resolveEvery)
	}
	w.publish()
	close(w.tried)
	w.tried = make(chan struct{})
}
