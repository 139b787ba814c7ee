// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/suites/chaos/model"
	"github.com/http01-proxyd/http01-proxyd/test/support/rig"
)

// ledger has the times at which requests may fail, as the model has it: between two faults
// a VIP is served or it is not, and a fault can cost the requests in flight.
type ledger struct {
	moments []moment
	start   int64 // requests sent before the sequence
}

// moment is a change of what clients can expect.
type moment struct {
	begun  time.Time // the fault
	at     time.Time // it was complete
	fault  model.Fault
	served map[netip.Addr]bool // from then on
	cuts   bool                // requests in flight are lost
}

// record notes a fault, in the model and in the ledger. What it may have cost began before
// the fault was complete.
func (h *host) record(f model.Fault, done bool, begun time.Time) {
	now := time.Now()
	h.model.Apply(f, done, now)
	h.note(f, done && h.model.Cuts(f), begun, now)
}

func (h *host) note(f model.Fault, cuts bool, begun, now time.Time) {
	m := moment{begun: begun, at: now, fault: f, served: make(map[netip.Addr]bool), cuts: cuts}
	for _, vip := range h.network().API {
		m.served[vip] = h.model.Serves(vip, now)
	}
	h.requests.moments = append(h.requests.moments, m)
}

// recovery is how long a VIP may need until it is served: the bound of the service, and
// slack.
func (h *host) recovery(f model.Fault) time.Duration { return h.model.Recovery(f) + slack }

// explain returns the fault that explains a failed request, or false.
func (h *host) explain(f rig.Failure) (model.Fault, bool) {
	for i, m := range h.requests.moments {
		if m.cuts && f.Start.Before(m.at) && f.End.After(m.begun) {
			return m.fault, true
		}
		// A VIP that is not served from here on is not served until it is again, and a while
		// longer. It stopped being served when the fault began.
		until := time.Now()
		if m.served[f.VIP] {
			until = m.at.Add(h.recovery(m.fault))
			if i > 0 && h.requests.moments[i-1].served[f.VIP] {
				continue
			}
		} else if i+1 < len(h.requests.moments) {
			until = h.requests.moments[i+1].at
		}
		if f.Start.Before(until) && f.End.After(m.begun) {
			return m.fault, true
		}
	}
	return model.Fault{}, false
}

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
	s := fmt.Sprintf("%d sent, %d failed, %d lost", t.sent, t.failed, len(t.lost))
	for _, k := range slices.Sorted(maps.Keys(t.attributed)) {
		s += fmt.Sprintf("; %d for %s", t.attributed[k], k)
	}
	return s
}

// judge attributes each failed request to a fault, or reports it as lost.
func (h *host) judge() traffic {
	h.clients.Pause()
	t := traffic{sent: h.clients.Sent() - h.requests.start, attributed: make(map[model.Kind]int)}
	for _, f := range h.clients.TakeFailures() {
		t.failed++
		fault, explained := h.explain(f)
		if explained {
			t.attributed[fault.Kind]++
			continue
		}
		t.lost = append(t.lost, fmt.Sprintf("lost: %v from %v, %v before the end, after %v: %v", f.VIP, f.Client,
			time.Since(f.Start).Round(time.Millisecond), f.End.Sub(f.Start).Round(time.Millisecond), f.Err))
	}
	return t
}
