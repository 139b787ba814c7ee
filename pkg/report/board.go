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

// recentChallenges is how many challenges a report lists.
const recentChallenges = 20

// Look is what one look of the reconcile loop at the host found.
type Look struct {
	Reason  Reason
	Message string
	Silent  string // the message where no ingress address takes connections; empty: as each of them says
	Besides string // what every message ends with
	VIPs    []VIP
	Config  Config
}

// Board is where every part writes what it knows and from which reports are
// drawn. Its methods may be called from any goroutine.
type Board struct {
	version string
	changed chan struct{}
	moved   func(before, after Condition)
	moving  sync.Mutex // held over a transition and its moved, so that these come in order

	mu        sync.Mutex
	look      Look
	upstreams []Upstream
	gate      string // why nobody answers clients; empty when somebody does
	answer    *Answer
	condition Condition
	aspects   []Condition // of parts of the service
	trust     Trust
	egress    EgressProxy
	total     uint64
	traffic   traffic
	refused   map[Refusal]uint64
	recent    []Challenge // a ring once it is full; next is where the oldest lies
	next      int

	metrics Metrics
	ledger  ledger
}

// NewBoard returns the board of a service that has just started. moved is
// called for each change of the condition's reason or message, in order.
func NewBoard(version string, now time.Time, moved func(before, after Condition)) *Board {
	return &Board{
		version:   version,
		moved:     moved,
		changed:   make(chan struct{}, 1),
		condition: Condition{}.moved(Starting, "the first look at this host is not over yet", now),
		refused:   make(map[Refusal]uint64),
	}
}

// Changed yields a value after something on the board has changed; changes
// that nobody has waited for are folded into one.
func (b *Board) Changed() <-chan struct{} { return b.changed }

func (b *Board) touch() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// SetLook takes the result of a look at the host.
func (b *Board) SetLook(look Look, now time.Time) {
	b.change(func() {
		look.VIPs = since(b.look.VIPs, look.VIPs, now)
		b.look = look
	}, now)
}

// SetUpstreams takes the result of a look at the ingress addresses.
func (b *Board) SetUpstreams(upstreams []Upstream, now time.Time) {
	b.change(func() {
		if !slices.EqualFunc(b.upstreams, upstreams, func(x, y Upstream) bool { return x.Address == y.Address }) {
			b.touch() // the sentence names them
		}
		b.upstreams = upstreams
	}, now)
}

// SetGate takes why nobody answers clients; empty when somebody does.
func (b *Board) SetGate(why string, now time.Time) {
	b.change(func() { b.gate = why }, now)
}

// Answer is what the service's own requests to the held VIPs have found.
type Answer struct {
	VIPs    []netip.Addr // on which the last one was answered
	Failure string       // why others are not; empty while that is not known
	Note    string       // what every message ends with while this host serves
}

// SetAnswer takes what the service's own requests have found. From the first call
// on, the condition does not become Serving before each held VIP is among those of
// the answer: until then, or until there is a failure, it stays as it is.
func (b *Board) SetAnswer(a Answer, now time.Time) {
	b.change(func() { b.answer = &a }, now)
}

// answered needs mu.
func (b *Board) answered() bool {
	return !slices.ContainsFunc(b.look.VIPs, func(v VIP) bool {
		return v.State == VIPHeld && !slices.Contains(b.answer.VIPs, v.Address.Unmap())
	})
}

func (b *Board) change(set func(), now time.Time) {
	b.moving.Lock()
	defer b.moving.Unlock()
	b.mu.Lock()
	set()
	before, after := b.judge(now)
	b.mu.Unlock()
	if before.Reason != after.Reason || before.Message != after.Message {
		b.moved(before, after)
	}
}

// judge needs mu.
func (b *Board) judge(now time.Time) (before, after Condition) {
	before = b.condition
	if b.look.Reason == "" {
		return before, before
	}
	reason, message := b.look.Reason, b.look.Message
	if reason == Serving && allUnreachable(b.upstreams) {
		reason, message = UpstreamUnreachable, b.look.Silent
		if message == "" {
			message = unreachableMessage(b.upstreams)
		}
	}
	holding := reason == Serving || reason == UpstreamUnreachable
	switch a := b.answer; {
	case b.gate != "" && (reason == Standby || holding):
		reason, message = GateUnavailable, b.gate
	case a == nil || !holding:
	case a.Failure != "":
		reason, message = GateUnavailable, a.Failure
	case !b.answered():
		return before, before
	case a.Note != "":
		message += "; " + a.Note
	}
	b.condition = before.moved(reason, message+b.look.Besides, now)
	if b.condition != before {
		b.touch()
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

// Challenge records a request that went to the ingress. One that went well is
// proof that its address can be reached.
func (b *Board) Challenge(c Challenge) {
	if c.Cause == "" && c.Status != 0 && b.unproven(c.Upstream) {
		b.change(func() { b.prove(c.Upstream, c.Time) }, c.Time)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.recent) < recentChallenges {
		b.recent = append(b.recent, c)
	} else {
		b.recent[b.next] = c
		b.next = (b.next + 1) % recentChallenges
	}
	b.touch()
}

func (b *Board) unproven(addr netip.AddrPort) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.upstreams, func(u Upstream) bool { return u.Address == addr && !u.Reachable })
}

// prove needs mu.
func (b *Board) prove(addr netip.AddrPort, at time.Time) {
	b.upstreams = slices.Clone(b.upstreams)
	for i, u := range b.upstreams {
		if u.Address == addr {
			b.upstreams[i] = Upstream{Address: addr, Reachable: true, Checked: at}
		}
	}
}

// Count counts requests that went to the ingress. Those that are still to be shown
// one by one are told of by Challenge besides.
func (b *Board) Count(sums []Sum) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range sums {
		b.total += s.Count
		b.traffic.add(s)
	}
	b.touch()
}

// Refused counts requests that were answered without asking the ingress.
func (b *Board) Refused(sums []RefusedSum) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range sums {
		b.refused[s.Refusal] += s.Count
		b.traffic.count(s.Asker, Outcome(s.Refusal), s.Count)
	}
}

// SetMetrics takes whether metrics are served.
func (b *Board) SetMetrics(m Metrics) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.metrics = m
}

// VIPs returns the API VIPs of the last look.
func (b *Board) VIPs() []VIP {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.look.VIPs)
}

// Report draws the whole picture; table is what the caller has read back from
// the kernel.
func (b *Board) Report(table Table) Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	recent := make([]ReportChallenge, 0, len(b.recent))
	for i := range b.recent {
		recent = append(recent, b.recent[(b.next+i)%len(b.recent)].report())
	}
	if table.Elements == nil {
		table.Elements = []netip.Addr{}
	}
	if table.Counters == nil {
		table.Counters = []Counter{}
	}
	conditions := append([]Condition{b.condition}, b.aspects...)
	events, certificates := b.ledger.report()
	return Report{
		Version:    b.version,
		Build:      readBuild(),
		Conditions: conditions,
		VIPs:       append([]VIP{}, b.look.VIPs...),
		Table:      table,
		Upstreams:  append([]Upstream{}, b.upstreams...),
		Challenges: Challenges{Total: b.total, Refused: maps.Clone(b.refused), Recent: recent},
		Config:     b.look.Config,

		Traffic:      b.traffic.report(),
		Events:       events,
		Certificates: certificates,
		Metrics:      b.metrics,
		Trust:        b.trust.report(),
		EgressProxy:  b.egress.report(),
	}
}
