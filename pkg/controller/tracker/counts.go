// SPDX-License-Identifier: Apache-2.0

package tracker

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// CountForwarded counts requests that were forwarded to the ingress. RecordChallenge
// records single requests and does not count them.
func (t *Tracker) CountForwarded(counts []report.ForwardedCount) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range counts {
		t.forwarded += c.Count
		t.traffic.addForwarded(c)
	}
	t.signalChange()
}

// CountRejected counts connections that ended without a request to the ingress.
func (t *Tracker) CountRejected(counts []report.RejectionCount, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range counts {
		t.rejected[c.Rejection] += c.Count
		t.traffic.add(c.ClientKind, report.Outcome(c.Rejection), c.Count)
		if c.Rejection == report.ForeignHost && c.ClientKind != report.OtherClient && c.ClientKind != report.CheckClient {
			t.foreignHost = now.UTC().Truncate(time.Second)
		}
	}
}

// CountTestRequests counts test requests of others. The zero address stands for sources without
// their own count.
func (t *Tracker) CountTestRequests(counts []report.TestSource, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range counts {
		t.testRequests.add(c, now)
	}
}

// CountEvents calls count with the counters of events.
func (t *Tracker) CountEvents(count func(*report.Events)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	count(&t.report.Events)
}

// trafficCounts counts requests. The zero value is ready.
type trafficCounts struct {
	requests  map[report.RequestCount]uint64 // Count is 0 in the keys
	durations report.Histogram
	errors    map[string]uint64
}

func (c *trafficCounts) add(client report.ClientKind, outcome report.Outcome, n uint64) {
	if c.requests == nil {
		c.requests = make(map[report.RequestCount]uint64)
	}
	c.requests[report.RequestCount{Outcome: outcome, ClientKind: client}] += n
}

func (c *trafficCounts) addForwarded(f report.ForwardedCount) {
	c.add(f.ClientKind, f.Outcome, f.Count)
	c.durations.Add(f.Bucket, f.Count, f.TotalDuration)
	if f.Cause == "" {
		return
	}
	if c.errors == nil {
		c.errors = make(map[string]uint64)
	}
	c.errors[f.Cause] += f.Count
}

// snapshot returns a copy in a fixed order.
func (c *trafficCounts) snapshot() report.Traffic {
	t := report.Traffic{
		Requests: make([]report.RequestCount, 0, len(c.requests)), Durations: c.durations,
		UpstreamErrors: maps.Clone(c.errors),
	}
	t.Durations.Buckets = maps.Clone(c.durations.Buckets)
	for key, n := range c.requests {
		key.Count = n
		t.Requests = append(t.Requests, key)
	}
	slices.SortFunc(t.Requests, func(a, b report.RequestCount) int {
		return cmp.Or(cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(a.ClientKind, b.ClientKind))
	})
	return t
}

// sourceLifetime is how long a source without requests keeps its own count if there
// is no room for another one.
const sourceLifetime = time.Hour

// testRequests counts test requests. The zero value is ready.
type testRequests report.TestRequests

func (r *testRequests) add(c report.TestSource, now time.Time) {
	r.Total += c.Count
	i := slices.IndexFunc(r.Sources, func(s report.TestSource) bool { return s.Address == c.Address })
	if i < 0 && c.Address.IsValid() && r.makeRoom(now) {
		i = len(r.Sources)
		r.Sources = append(r.Sources, report.TestSource{Address: c.Address})
	}
	if i < 0 {
		r.Others += c.Count
		return
	}
	r.Sources[i].Count += c.Count
	r.Sources[i].Last = now.UTC().Truncate(time.Second)
}

// makeRoom reports whether another source can get its own count. Anybody can send test
// requests: a source that is active is never displaced.
func (r *testRequests) makeRoom(now time.Time) bool {
	if len(r.Sources) < report.MaxTestSources {
		return true
	}
	oldest := slices.MinFunc(r.Sources, func(a, b report.TestSource) int { return a.Last.Compare(b.Last) })
	if now.Sub(oldest.Last) < sourceLifetime {
		return false
	}
	r.Others += oldest.Count
	r.Sources = slices.DeleteFunc(r.Sources, func(s report.TestSource) bool { return s == oldest })
	return true
}

// snapshot returns a copy, sorted by address.
func (r *testRequests) snapshot() report.TestRequests {
	sorted := report.TestRequests(*r)
	sorted.Sources = slices.SortedFunc(slices.Values(r.Sources), func(a, b report.TestSource) int {
		return a.Address.Compare(b.Address)
	})
	return sorted
}
