// SPDX-License-Identifier: Apache-2.0

package report

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxRecentChallenges is how many challenges a report lists.
const maxRecentChallenges = 20

// ReconcileResult is what one look of the reconcile loop at the host found.
type ReconcileResult struct {
	Reason             Reason
	Message            string
	UnreachableMessage string // the message where no ingress address takes connections; empty: as each of them says
	MessageSuffix      string // what every message ends with
	VIPs               []VIP
	Config             Config
}

// Tracker is where every part writes what it knows and from which reports are
// drawn. Its methods may be called from any goroutine.
type Tracker struct {
	version      string
	changed      chan struct{}
	onTransition func(before, after Condition)
	transitionMu sync.Mutex // held over a transition and its moved, so that these come in order

	mu             sync.Mutex
	result         ReconcileResult
	upstreams      []Upstream
	proxyFailure   string // why nobody answers clients; empty when somebody does
	vipProbe       *VIPProbe
	condition      Condition
	partConditions []Condition // of parts of the service
	trust          Trust
	egress         EgressProxy
	forwarded      uint64
	traffic        trafficCounts
	refused        map[Refusal]uint64
	recent         []Challenge // a ring once it is full; next is where the oldest lies
	oldest         int

	metrics     Metrics
	eventCounts eventCounts
}

// NewTracker returns the board of a service that has just started. moved is
// called for each change of the condition's reason or message, in order.
func NewTracker(version string, now time.Time, moved func(before, after Condition)) *Tracker {
	return &Tracker{
		version:      version,
		onTransition: moved,
		changed:      make(chan struct{}, 1),
		condition:    Condition{}.withReason(Starting, "the first look at this host is not over yet", now),
		refused:      make(map[Refusal]uint64),
	}
}

// Changed yields a value after something on the board has changed; changes
// that nobody has waited for are folded into one.
func (b *Tracker) Changed() <-chan struct{} { return b.changed }

func (b *Tracker) signalChange() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// SetReconcileResult takes the result of a look at the host.
func (b *Tracker) SetReconcileResult(look ReconcileResult, now time.Time) {
	b.update(func() {
		look.VIPs = carrySince(b.result.VIPs, look.VIPs, now)
		b.result = look
	}, now)
}

// SetUpstreams takes the result of a look at the ingress addresses.
func (b *Tracker) SetUpstreams(upstreams []Upstream, now time.Time) {
	b.update(func() {
		if !slices.EqualFunc(b.upstreams, upstreams, func(x, y Upstream) bool { return x.Address == y.Address }) {
			b.signalChange() // the sentence names them
		}
		b.upstreams = upstreams
	}, now)
}

// SetProxyFailure takes why nobody answers clients; empty when somebody does.
func (b *Tracker) SetProxyFailure(why string, now time.Time) {
	b.update(func() { b.proxyFailure = why }, now)
}

// VIPProbe is what the service's own requests to the held Answered have found.
type VIPProbe struct {
	Answered []netip.Addr // on which the last one was answered
	Failure  string       // why others are not; empty while that is not known
	Note     string       // what every message ends with while this host serves
}

// SetVIPProbe takes what the service's own requests have found. From the first call
// on, the condition does not become Serving before each held VIP is among those of
// the answer: until then, or until there is a failure, it stays as it is.
func (b *Tracker) SetVIPProbe(a VIPProbe, now time.Time) {
	b.update(func() { b.vipProbe = &a }, now)
}

// allHeldAnswered needs mu.
func (b *Tracker) allHeldAnswered() bool {
	return !slices.ContainsFunc(b.result.VIPs, func(v VIP) bool {
		return v.State == VIPHeld && !slices.Contains(b.vipProbe.Answered, v.Address.Unmap())
	})
}

func (b *Tracker) update(set func(), now time.Time) {
	b.transitionMu.Lock()
	defer b.transitionMu.Unlock()
	b.mu.Lock()
	set()
	before, after := b.evaluate(now)
	b.mu.Unlock()
	if before.Reason != after.Reason || before.Message != after.Message {
		b.onTransition(before, after)
	}
}

// evaluate needs mu.
func (b *Tracker) evaluate(now time.Time) (before, after Condition) {
	before = b.condition
	if b.result.Reason == "" {
		return before, before
	}
	reason, message := b.result.Reason, b.result.Message
	if reason == Serving && allUnreachable(b.upstreams) {
		reason, message = UpstreamUnreachable, b.result.UnreachableMessage
		if message == "" {
			message = unreachableMessage(b.upstreams)
		}
	}
	holding := reason == Serving || reason == UpstreamUnreachable
	switch a := b.vipProbe; {
	case b.proxyFailure != "" && (reason == Standby || holding):
		reason, message = ProxyUnavailable, b.proxyFailure
	case a == nil || !holding:
	case a.Failure != "":
		reason, message = ProxyUnavailable, a.Failure
	case !b.allHeldAnswered():
		return before, before
	case a.Note != "":
		message += "; " + a.Note
	}
	b.condition = before.withReason(reason, message+b.result.MessageSuffix, now)
	if b.condition != before {
		b.signalChange()
	}
	return before, b.condition
}

// allUnreachable holds when every address has been tried and none took the
// connection.
func allUnreachable(upstreams []Upstream) bool {
	return len(upstreams) > 0 && !slices.ContainsFunc(upstreams, func(u Upstream) bool { return u.Reachable || u.Checked.IsZero() })
}

func unreachableMessage(upstreams []Upstream) string {
	why := make([]string, len(upstreams))
	for i, u := range upstreams {
		why[i] = u.Error
	}
	return "no ingress address takes connections: " + strings.Join(why, "; ")
}

// RecordChallenge records a request that went to the ingress. One that went well is
// proof that its address can be reached.
func (b *Tracker) RecordChallenge(c Challenge) {
	if c.Cause == "" && c.Status != 0 && b.notKnownReachable(c.Upstream) {
		b.update(func() { b.markReachable(c.Upstream, c.Time) }, c.Time)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.recent) < maxRecentChallenges {
		b.recent = append(b.recent, c)
	} else {
		b.recent[b.oldest] = c
		b.oldest = (b.oldest + 1) % maxRecentChallenges
	}
	b.signalChange()
}

func (b *Tracker) notKnownReachable(addr netip.AddrPort) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.upstreams, func(u Upstream) bool { return u.Address == addr && !u.Reachable })
}

// markReachable needs mu.
func (b *Tracker) markReachable(addr netip.AddrPort, at time.Time) {
	b.upstreams = slices.Clone(b.upstreams)
	for i, u := range b.upstreams {
		if u.Address == addr {
			b.upstreams[i] = Upstream{Address: addr, Reachable: true, Checked: at}
		}
	}
}

// CountForwarded counts requests that went to the ingress. Those that are still to be shown
// one by one are told of by Challenge besides.
func (b *Tracker) CountForwarded(sums []ForwardedCount) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range sums {
		b.forwarded += s.Count
		b.traffic.add(s)
	}
	b.signalChange()
}

// CountRefused counts requests that were answered without asking the ingress.
func (b *Tracker) CountRefused(sums []RefusalCount) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range sums {
		b.refused[s.Refusal] += s.Count
		b.traffic.count(s.ClientKind, Outcome(s.Refusal), s.Count)
	}
}

// SetMetrics takes whether metrics are served.
func (b *Tracker) SetMetrics(m Metrics) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.metrics = m
}

// Answered returns the API Answered of the last look.
func (b *Tracker) VIPs() []VIP {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.result.VIPs)
}

// Report draws the whole picture; table is what the caller has read back from
// the kernel.
func (b *Tracker) Report(table Table) Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	recent := make([]RecentChallenge, 0, len(b.recent))
	for i := range b.recent {
		recent = append(recent, b.recent[(b.oldest+i)%len(b.recent)].toRecent())
	}
	if table.Elements == nil {
		table.Elements = []netip.Addr{}
	}
	if table.Counters == nil {
		table.Counters = []Counter{}
	}
	conditions := append([]Condition{b.condition}, b.partConditions...)
	events, certificates := b.eventCounts.snapshot()
	return Report{
		Version:    b.version,
		Build:      readBuild(),
		Conditions: conditions,
		VIPs:       append([]VIP{}, b.result.VIPs...),
		Table:      table,
		Upstreams:  append([]Upstream{}, b.upstreams...),
		Challenges: Challenges{Total: b.forwarded, Refused: maps.Clone(b.refused), Recent: recent},
		Config:     b.result.Config,

		Traffic:      b.traffic.snapshot(),
		Events:       events,
		Certificates: certificates,
		Metrics:      b.metrics,
		Trust:        b.trust.withEmptyLists(),
		EgressProxy:  b.egress.withEmptyLists(),
	}
}
