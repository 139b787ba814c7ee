// SPDX-License-Identifier: Apache-2.0

package tracker

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// maxRecentChallenges is the number of challenges in a report.
	maxRecentChallenges = 20
	// recentAge is how long a report keeps the challenges of others during a flood: check
	// evaluates the last five minutes.
	recentAge = 5 * time.Minute
)

// ReconcileResult is the result of one pass of the reconcile loop.
type ReconcileResult struct {
	Reason             report.Reason
	Message            string
	UnreachableMessage string // the message if no ingress address accepts connections; empty: the errors of the addresses
	MessageSuffix      string // the end of every message
	VIPs               []report.VIP
	Config             report.Config
	AcceptedHosts      report.AcceptedHosts
}

// VIPProbe is the result of the service's own requests to the held VIPs.
type VIPProbe struct {
	Answered []netip.Addr // VIPs whose last request was answered
	Failure  string       // why the other requests fail; empty if it is not known yet
	Note     string       // why clients may fail while the reason is Serving
}

// Tracker collects the state of all parts of the service. Its methods are safe for
// concurrent use.
type Tracker struct {
	changed      chan struct{}
	onTransition func(before, after report.Condition)
	transitionMu sync.Mutex // locked before mu, and held during onTransition: calls keep the order of the transitions

	mu             sync.Mutex
	result         ReconcileResult
	report         report.Report // what is set as it is reported
	proxyFailure   string        // why no proxy process serves clients; empty if one does
	vipProbe       *VIPProbe     // nil before the first SetVIPProbe
	condition      report.Condition
	reported       report.Condition   // the last one that onTransition received
	partConditions []report.Condition // of parts of the service
	testRequests   testRequests
	forwarded      uint64
	rejected       map[report.Rejection]uint64
	foreignHost    time.Time // see report.Challenges.LastForeignHost
	traffic        trafficCounts
	recent         []report.Challenge // at most maxRecentChallenges, oldest first
}

// New returns the tracker of a service that just started. It calls onTransition
// after each change of the condition's reason or message, in order.
func New(version string, now time.Time, onTransition func(before, after report.Condition)) *Tracker {
	const message = "the first observation of this host is not complete yet"
	starting := report.Condition{Type: report.ConditionType}.Next(false, report.Starting, message, now)
	t := &Tracker{
		onTransition: onTransition,
		changed:      make(chan struct{}, 1),
		condition:    starting,
		reported:     starting,
		rejected:     make(map[report.Rejection]uint64),
		report: report.Report{
			Version: version, Build: report.ReadBuild(), StateSince: starting.LastTransitionTime,
			Events: report.Events{Reloads: make(map[string]uint64), VIPTests: make(map[report.VIPTestResult]uint64)},
		},
	}
	t.recordCondition(report.Condition{}, starting, now)
	return t
}

// Changed receives a value after the status line may have changed. Values that were not
// received are merged into one.
func (t *Tracker) Changed() <-chan struct{} { return t.changed }

func (t *Tracker) signalChange() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// SetReconcileResult sets the result of a reconcile pass.
func (t *Tracker) SetReconcileResult(result ReconcileResult, now time.Time) {
	t.update(func() {
		result.VIPs = carrySince(t.result.VIPs, result.VIPs, now)
		t.recordVIPs(t.result.VIPs, result.VIPs, now)
		if !slices.Equal(t.result.AcceptedHosts.Names, result.AcceptedHosts.Names) {
			t.foreignHost = time.Time{}
		}
		t.result = result
	}, now)
}

// carrySince sets Since of each VIP: the previous time if its state is the same, and now
// otherwise.
func carrySince(before, vips []report.VIP, now time.Time) []report.VIP {
	dated := slices.Clone(vips)
	for i, v := range dated {
		same := func(b report.VIP) bool { return b.Address == v.Address && b.State == v.State }
		if at := slices.IndexFunc(before, same); at >= 0 {
			dated[i].Since = before[at].Since
		} else {
			dated[i].Since = now.UTC().Truncate(time.Second)
		}
	}
	return dated
}

// SetUpstreams sets the result of a check of the ingress addresses.
func (t *Tracker) SetUpstreams(upstreams []report.Upstream, now time.Time) {
	t.update(func() {
		same := func(x, y report.Upstream) bool { return x.Address == y.Address && x.Error == y.Error }
		if !slices.EqualFunc(t.report.Upstreams, upstreams, same) {
			t.signalChange()
		}
		t.report.Upstreams = upstreams
	}, now)
}

// SetProxyFailure sets why no proxy process serves clients; empty if one does.
func (t *Tracker) SetProxyFailure(why string, now time.Time) {
	t.update(func() { t.proxyFailure = why }, now)
}

// SetVIPProbe sets the result of the service's own requests. After the first call, the reason
// becomes Serving only when each held VIP answered. Until then, or until there is a failure,
// the reason does not change and the message reports the VIPs that did not answer yet.
func (t *Tracker) SetVIPProbe(p VIPProbe, now time.Time) {
	t.update(func() { t.vipProbe = &p }, now)
}

// update calls set with mu locked, and evaluates the condition.
func (t *Tracker) update(set func(), now time.Time) {
	t.transitionMu.Lock()
	defer t.transitionMu.Unlock()
	t.mu.Lock()
	set()
	before, after := t.reported, t.reported
	if t.evaluate(now) {
		after = t.condition
		t.reported = after
		t.recordCondition(before, after, now)
	}
	t.mu.Unlock()
	if before.Reason != after.Reason || before.Message != after.Message {
		t.onTransition(before, after)
	}
}

// evaluate updates the condition. final is false until a VIP that arrived answers for the first
// time: that usually takes less than a second, and is no transition. The caller holds mu.
func (t *Tracker) evaluate(now time.Time) (final bool) {
	if t.result.Reason == "" {
		return false
	}
	before := t.condition
	defer func() {
		if t.condition != before {
			t.signalChange()
		}
		if t.condition.Reason != before.Reason {
			t.report.StateSince = now.UTC().Truncate(time.Second)
		}
	}()
	reason, message := t.result.Reason, t.result.Message
	if reason == report.Serving && allUnreachable(t.report.Upstreams) {
		reason, message = report.UpstreamUnreachable, t.result.UnreachableMessage
		if message == "" {
			message = unreachableMessage(t.report.Upstreams)
		}
	}
	holding := reason == report.Serving || reason == report.UpstreamUnreachable
	switch p := t.vipProbe; {
	case t.proxyFailure != "" && (reason == report.Standby || holding):
		reason, message = report.ProxyUnavailable, t.proxyFailure
	case p == nil || !holding:
	case p.Failure != "":
		reason, message = report.ProxyUnavailable, p.Failure
	case len(t.heldUnanswered()) > 0:
		message = fmt.Sprintf("%s; waiting for the response to the service's own request to %s%s",
			t.result.Message, strings.Join(t.heldUnanswered(), ", "), t.result.MessageSuffix)
		waiting := waitingReason(before.Reason)
		t.condition = before.Next(waiting.Ready(), waiting, message, now)
		return false
	case p.Note != "":
		message += "; " + p.Note + ": run http01-proxyd check"
	}
	t.condition = before.Next(reason.Ready(), reason, message+t.result.MessageSuffix, now)
	return true
}

// waitingReason returns the reason until a held VIP answers for the first time: the previous
// reason, unless its cause is over. A corrected configuration is not invalid any more.
func waitingReason(before report.Reason) report.Reason {
	switch before {
	case report.Serving, report.Standby, report.UpstreamUnreachable, report.ProxyUnavailable:
		return before
	default:
		return report.Starting
	}
}

// heldUnanswered returns the held VIPs that did not answer yet. The caller holds mu.
func (t *Tracker) heldUnanswered() (vips []string) {
	for _, v := range t.result.VIPs {
		if v.State == report.VIPHeld && !slices.Contains(t.vipProbe.Answered, v.Address.Unmap()) {
			vips = append(vips, v.Address.String())
		}
	}
	return vips
}

// allUnreachable reports whether every address was checked and none accepted the
// connection.
func allUnreachable(upstreams []report.Upstream) bool {
	possible := func(u report.Upstream) bool { return u.Reachable || u.Checked.IsZero() }
	return len(upstreams) > 0 && !slices.ContainsFunc(upstreams, possible)
}

// unreachableMessage lists the failures. Most of them are sentences with a full stop.
func unreachableMessage(upstreams []report.Upstream) string {
	failures := make([]string, len(upstreams))
	for i, u := range upstreams {
		failures[i] = u.Error
	}
	return "no ingress address accepts connections: " + strings.ReplaceAll(strings.Join(failures, "; "), ".; ", ". ")
}

// RecordChallenge records a forwarded request.
func (t *Tracker) RecordChallenge(c report.Challenge) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.recent) == maxRecentChallenges {
		at := 0
		if c.Time.Sub(t.recent[0].Time) < recentAge {
			at = c.Displaces(len(t.recent), func(i int) *report.Challenge { return &t.recent[i] })
		}
		t.recent = slices.Delete(t.recent, at, at+1)
	}
	t.recent = append(t.recent, c)
	t.signalChange()
}

// SetMetrics sets the state of the exporter.
func (t *Tracker) SetMetrics(m report.Metrics) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Metrics = m
}

// SetCertificates sets the certificates of the API server.
func (t *Tracker) SetCertificates(all []report.Certificate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Certificates = slices.Clone(all)
	t.signalChange()
}

// SetSelfTests sets the results of the self-tests.
func (t *Tracker) SetSelfTests(all []report.SelfTest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.SelfTests = slices.Clone(all)
	t.signalChange()
}

// SetVIPTests sets the results of the tests of VIPs that this host does not hold, and counts those
// that are new.
func (t *Tracker) SetVIPTests(all []report.VIPTest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.EqualFunc(t.report.VIPTests, all, func(a, b report.VIPTest) bool { return a.Error == b.Error }) {
		t.signalChange() // the status line contains the failures
	}
	for _, one := range all {
		counted := func(old report.VIPTest) bool { return old.VIP == one.VIP && old.Checked.Equal(one.Checked) }
		if !slices.ContainsFunc(t.report.VIPTests, counted) {
			t.report.Events.VIPTests[one.Result]++
		}
	}
	t.report.VIPTests = slices.Clone(all)
}

// SetTrust sets the CAs for TLS to the ingress.
func (t *Tracker) SetTrust(trust report.Trust, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Trust = trust
	reason, message := trust.Evaluate()
	ready := reason == report.TrustLoaded || reason == report.SystemTrust || reason == report.NotRequired
	t.setPartCondition(report.TrustConditionType, ready, reason, message, now)
}

// SetEgress sets the state of the egress proxy.
func (t *Tracker) SetEgress(egress report.EgressProxy, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.EgressProxy = egress
	reason, message := egress.Evaluate()
	ready := reason != report.EgressNotReady && reason != report.EgressInvalid
	t.setPartCondition(report.EgressConditionType, ready, reason, message, now)
}

// setPartCondition sets the condition of a part of the service. The caller holds mu.
func (t *Tracker) setPartCondition(kind string, ready bool, reason report.Reason, message string, now time.Time) {
	i := slices.IndexFunc(t.partConditions, func(c report.Condition) bool { return c.Type == kind })
	if i < 0 {
		i = len(t.partConditions)
		t.partConditions = append(t.partConditions, report.Condition{Type: kind})
	}
	before := t.partConditions[i]
	t.partConditions[i] = before.Next(ready, reason, message, now)
	t.recordCondition(before, t.partConditions[i], now)
	t.signalChange()
}

// Report returns the current report; table is the nftables table that the caller read from the
// kernel.
func (t *Tracker) Report(table report.Table) report.Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	recent := make([]report.RecentChallenge, 0, len(t.recent))
	for i := range t.recent {
		recent = append(recent, t.recent[i].Recent())
	}
	r := t.report
	r.Conditions = append([]report.Condition{t.condition}, t.partConditions...)
	r.VIPs, r.Config, r.Table = slices.Clone(t.result.VIPs), t.result.Config, table
	r.AcceptedHosts = t.result.AcceptedHosts
	if t.condition.Reason == report.Serving && t.vipProbe != nil {
		r.OwnRequests = t.vipProbe.Note
	}
	r.Challenges = report.Challenges{
		Total: t.forwarded, Rejected: maps.Clone(t.rejected), Recent: recent, LastForeignHost: t.foreignHost,
	}
	r.Traffic, r.TestRequests = t.traffic.snapshot(), t.testRequests.snapshot()
	r.Events.Reloads, r.Events.VIPTests = maps.Clone(r.Events.Reloads), maps.Clone(r.Events.VIPTests)
	r.Certificates, r.History = slices.Clone(r.Certificates), slices.Clone(r.History)
	return r.WithEmptyLists()
}
