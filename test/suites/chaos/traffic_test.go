// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/suites/chaos/model"
	"github.com/http01-proxyd/http01-proxyd/test/support/rig"
)

// ledger has the times at which requests may fail, as the model has it: between two faults
// a VIP is served or it is not, and a fault can cost the requests in flight.
type ledger struct {
	moments []moment
	start   int64                      // requests sent before the sequence
	proof   time.Time                  // from which on served VIPs must answer: see prove; zero: not yet
	causes  map[netip.Addr]model.Fault // since which a VIP is not served
}

// moment is a change of what clients can expect.
type moment struct {
	begun  time.Time // the fault
	at     time.Time // it was complete
	fault  model.Fault
	served map[netip.Addr]bool        // from then on
	causes map[netip.Addr]model.Fault // of the others
	cut    []netip.Addr               // VIPs to which requests in flight are lost

	recovery time.Duration // until VIPs are served that were not
}

// record notes a fault, in the model and in the ledger. What it may have cost began before
// the fault was complete.
func (h *host) record(f model.Fault, done bool, begun time.Time) {
	now := time.Now()
	var cut []netip.Addr
	h.model.Slack = h.slack()
	if done {
		cut = h.model.Cut(f, begun)
	}
	h.model.Apply(f, done, now)
	h.note(f, cut, begun, now)
}

func (h *host) note(f model.Fault, cut []netip.Addr, begun, now time.Time) {
	m := moment{begun: begun, at: now, fault: f, served: make(map[netip.Addr]bool), cut: cut}
	served := make(map[netip.Addr]bool)
	for _, vip := range h.network().API {
		m.served[vip] = h.model.Serves(vip, now)
		served[vip] = m.served[vip]
		if _, since := h.requests.causes[vip]; m.served[vip] {
			delete(h.requests.causes, vip)
		} else if !since {
			h.requests.causes[vip] = f
		}
	}
	m.causes = maps.Clone(h.requests.causes)
	m.recovery = h.model.Recovery(now) + h.slack()
	h.requests.moments = append(h.requests.moments, m)
	h.served.Store(&served)
}

// isServed reports whether a VIP is served, for the clients.
func (h *host) isServed(vip netip.Addr) bool {
	served := h.served.Load()
	return served != nil && (*served)[vip]
}

// explain returns the fault that explains a failed request, or false.
func (h *host) explain(f rig.Failure) (model.Fault, bool) {
	var before moment
	for i, m := range h.requests.moments {
		last := m.at
		if m.fault.Lingers() {
			last = last.Add(h.slack())
		}
		cut := slices.Contains(m.cut, f.VIP) && f.Start.Before(last) && f.End.After(m.begun)
		// A VIP is not served from the begin of the fault on that ends it.
		until := time.Now()
		if i+1 < len(h.requests.moments) {
			until = h.requests.moments[i+1].at
		}
		cause, unserved := m.causes[f.VIP]
		if late, was := before.causes[f.VIP]; !unserved && was { // it is served again, after a while
			cause, unserved, until = late, true, m.at.Add(m.recovery)
			if proof := h.requests.proof; !proof.IsZero() && proof.Before(until) {
				until = proof
			}
		}
		switch {
		case cut:
			return m.fault, true
		case unserved && f.Start.Before(until) && f.End.After(m.begun):
			return cause, true
		}
		before = m
	}
	return model.Fault{}, false
}

// proofTime is how long requests are sent at least to a host that agrees with the model.
const proofTime = 300 * time.Millisecond

// prove sends requests to a host that agrees with the model, and requires an answer of each VIP
// that is served. It waits for the bounds of VIPs that will be served, and of faults that
// linger. No fault explains a request that begins after that and fails.
func (h *host) prove(ctx context.Context) (differences []string, err error) {
	begin := time.Now()
	limit := h.model.Due(begin).Add(h.slack())
	settled := func(now time.Time) bool {
		h.model.Advance(now)
		if now.Before(h.lingering()) {
			return false
		}
		return !slices.ContainsFunc(h.network().API, func(vip netip.Addr) bool {
			return h.model.WillServe(vip, now) && !h.model.Serves(vip, now)
		})
	}
	for now := begin; !settled(now) && now.Before(limit); now = time.Now() {
		if err := sleep(ctx, pollInterval); err != nil {
			return nil, err
		}
	}
	proof := time.Now()
	h.model.Advance(proof)
	h.note(model.Fault{}, nil, proof, proof)
	h.requests.proof = proof
	// The clients can all be waiting for answers that faults delayed.
	h.clients.RequestEach(slices.DeleteFunc(slices.Clone(h.network().API),
		func(vip netip.Addr) bool { return !h.isServed(vip) }))
	// The next proxy process starts after a delay, and connections are queued meanwhile.
	limit = h.model.Due(proof).Add(h.slack())
	for polls := 1; ; polls++ {
		// its time is a measure of this machine
		if _, err := h.observe(ctx, h.model.Running()); err != nil && ctx.Err() != nil {
			return nil, err
		}
		if err := sleep(ctx, pollInterval); err != nil {
			return nil, err
		}
		differences = nil
		for _, vip := range h.network().API {
			if h.isServed(vip) && h.clients.LastAnswered(vip).Before(proof) {
				differences = append(differences, fmt.Sprintf("%v: want an answer, got none within %v", vip,
					time.Since(proof).Round(time.Millisecond)))
			}
		}
		if now := time.Now(); len(differences) == 0 && now.Sub(proof) >= proofTime || now.After(limit) && polls >= minPolls {
			return differences, nil
		}
	}
}

// lingering returns until when requests can fail because of the last faults that linger.
func (h *host) lingering() (until time.Time) {
	for _, m := range h.requests.moments {
		if m.fault.Lingers() {
			until = m.at.Add(h.slack())
		}
	}
	return until
}

// sleep waits for a while, or returns why ctx ended.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// unanswered is how long a request may take when the sequence ends, beside the slack.
const unanswered = 2 * time.Second

// traffic is what became of the honest requests.
type traffic struct {
	sent       int64
	failed     int
	attributed map[model.Kind]int
	lost       []string // failures that no fault explains
}

func (t *traffic) add(o traffic) {
	t.sent += o.sent
	t.failed += o.failed
	if t.attributed == nil {
		t.attributed = make(map[model.Kind]int)
	}
	for k, n := range o.attributed {
		t.attributed[k] += n
	}
	t.lost = append(t.lost, o.lost...)
}

// String returns the counts.
func (t traffic) String() string {
	counts := []string{fmt.Sprintf("%d sent, %d failed, %d lost", t.sent, t.failed, len(t.lost))}
	for _, k := range slices.Sorted(maps.Keys(t.attributed)) {
		cause := string(k)
		if k == "" {
			cause = "VIPs that were not on the host yet"
		}
		counts = append(counts, fmt.Sprintf("%d for %s", t.attributed[k], cause))
	}
	return strings.Join(counts, "; ")
}

// judge attributes each failed request to a fault, or reports it as lost.
func (h *host) judge() traffic {
	h.clients.Pause()
	t := traffic{sent: h.clients.Sent() - h.requests.start, attributed: make(map[model.Kind]int)}
	for _, f := range h.clients.TakeFailures() {
		fault, explained := h.explain(f)
		if f.Aborted && (explained || f.End.Sub(f.Start) < unanswered+h.slack()) {
			t.sent--
			continue
		}
		t.failed++
		if explained {
			t.attributed[fault.Kind]++
			continue
		}
		t.lost = append(t.lost, fmt.Sprintf("lost: %v from %v, %v before the end, after %v: %v", f.VIP, f.Client,
			time.Since(f.Start).Round(time.Millisecond), f.End.Sub(f.Start).Round(time.Millisecond), f.Err))
	}
	return t
}
