// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// statsInterval is the shortest time between two reports. A flood is reported as sums,
// not request by request.
const statsInterval = 100 * time.Millisecond

// testRequestDelay is how long the report of a test request waits. A host sends one request for
// each address family, and one report of both wakes the controller once.
const testRequestDelay = 200 * time.Millisecond

// statsCollector holds the events that were not reported yet. Its size is bounded:
// some challenges, and counters.
type statsCollector struct {
	changed chan struct{}

	mu           sync.Mutex
	pending      protocol.Stats                        // without the challenges
	challenges   []protocol.Challenge                  // see keep
	sums         map[report.ForwardedCount]durationSum // of all challenges; keys contain neither Count nor TotalDuration
	rejections   map[report.RejectionCount]uint64      // keys contain no Count
	testRequests map[netip.Addr]uint64                 // by source; the zero address stands for further sources
	sending      sync.Mutex                            // keeps the reports in order
}

func newStatsCollector() *statsCollector {
	return &statsCollector{
		changed:      make(chan struct{}, 1),
		sums:         make(map[report.ForwardedCount]durationSum),
		rejections:   make(map[report.RejectionCount]uint64),
		testRequests: make(map[netip.Addr]uint64),
	}
}

type durationSum struct {
	count uint64
	total time.Duration
}

// RecordChallenge implements server.Recorder.
func (c *statsCollector) RecordChallenge(challenge report.Challenge, failure *cause.Failure) {
	r := &challenge
	r.VIP, r.Client, r.Upstream = r.VIP.WithZone(""), cause.WithoutZone(r.Client), cause.WithoutZone(r.Upstream)
	r.Duration = max(0, min(r.Duration, protocol.MaxRequestDuration)) // perhaps the host was suspended meanwhile
	r.Outcome = outcomeOf(r)
	key := report.ForwardedCount{
		ClientKind: r.ClientKind, Outcome: r.Outcome, Cause: r.Cause, Bucket: report.BucketOf(r.Duration),
	}
	c.update(func() {
		sum := c.sums[key]
		c.sums[key] = durationSum{sum.count + 1, sum.total + r.Duration}
		c.keep(protocol.Challenge{Challenge: *r, Failure: failure})
		c.pending.UpstreamFailed = c.pending.UpstreamFailed || isDeliveryFailure(r.Cause)
	})
}

// keep adds a challenge to the next report, and replaces another one if necessary. The caller
// holds mu.
func (c *statsCollector) keep(challenge protocol.Challenge) {
	if len(c.challenges) == protocol.MaxChallenges {
		at := challenge.Displaces(len(c.challenges), func(i int) *report.Challenge { return &c.challenges[i].Challenge })
		c.challenges = slices.Delete(c.challenges, at, at+1)
	}
	c.challenges = append(c.challenges, challenge)
}

// update changes what will be reported.
func (c *statsCollector) update(change func()) {
	c.mu.Lock()
	change()
	c.mu.Unlock()
	c.notify()
}

func outcomeOf(c *report.Challenge) report.Outcome {
	switch cause := findings.ID(c.Cause); {
	case cause == findings.RouteMissing, cause == findings.RouteMissingForAddress:
		return report.NoRoute
	case cause == findings.RouteRedirectsHTTPS, cause == findings.RouteRedirectLoop,
		cause == findings.RouteRedirectsElsewhere:
		return report.Redirected
	case cause != "":
		return report.UpstreamError
	case c.Status == 0:
		return report.AnswerUnread
	case c.Status == 200:
		return report.Answered
	case c.Status == 404:
		return report.NotFound
	default:
		return report.OtherStatus
	}
}

// isDeliveryFailure reports whether a cause shows that the ingress, or a hop before
// it, may be unreachable for all requests.
func isDeliveryFailure(cause string) bool {
	switch findings.ID(cause) {
	case findings.IngressRefused, findings.IngressTimeout, findings.IngressUnreachable,
		findings.EgressUnreachable, findings.EgressTLS, findings.EgressAuth, findings.EgressDenied:
		return true
	default:
		return false
	}
}

// RecordSelfTest implements server.Recorder.
func (c *statsCollector) RecordSelfTest(t protocol.SelfTested) {
	t.Upstream = cause.WithoutZone(t.Upstream)
	c.update(func() { c.pending.SelfTest = &t })
}

// RecordRejection implements server.Recorder.
func (c *statsCollector) RecordRejection(reason report.Rejection, kind report.ClientKind) {
	c.update(func() { c.rejections[report.RejectionCount{Rejection: reason, ClientKind: kind}]++ })
}

// RecordTestRequest implements server.Recorder. A request of this host itself comes from the
// VIP, and is not counted.
func (c *statsCollector) RecordTestRequest(source, vip netip.Addr) {
	if source == vip {
		return
	}
	source = source.WithZone("")
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.testRequests[source]; !known && len(c.testRequests) >= report.MaxTestSources {
		source = netip.Addr{}
	}
	c.testRequests[source]++
	if len(c.testRequests) == 1 && c.testRequests[source] == 1 {
		time.AfterFunc(testRequestDelay, c.notify)
	}
}

// RecordAcceptFailure implements server.Recorder.
func (c *statsCollector) RecordAcceptFailure(err error) {
	var number syscall.Errno
	errors.As(err, &number)
	c.update(func() {
		c.pending.AcceptFailures++
		c.pending.LastAcceptErrno = uint16(number) //nolint:gosec // an error number
	})
}

func (c *statsCollector) notify() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// flush reports all events that were not reported yet, if there are any.
func (c *statsCollector) flush(send func(*protocol.Stats)) {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.mu.Lock()
	s := c.pending
	s.Challenges, s.Sums = c.takeChallenges()
	for sum, count := range c.rejections {
		sum.Count = count
		s.Rejected = append(s.Rejected, sum)
	}
	clear(c.rejections)
	for source, count := range c.testRequests {
		s.TestRequests = append(s.TestRequests, report.TestSource{Address: source, Count: count})
	}
	clear(c.testRequests)
	c.pending = protocol.Stats{}
	c.mu.Unlock()
	if len(s.Sums) == 0 && s.Rejected == nil && s.TestRequests == nil && s.AcceptFailures == 0 && s.SelfTest == nil {
		return
	}
	send(&s)
}

// takeChallenges returns the challenges to report, the oldest first, and the sums of
// all. The caller holds mu.
func (c *statsCollector) takeChallenges() (kept []protocol.Challenge, sums []report.ForwardedCount) {
	kept, c.challenges = c.challenges, nil
	for key, of := range c.sums {
		if len(sums) == protocol.MaxRequestSums {
			c.notify() // the next report contains the rest
			break
		}
		delete(c.sums, key)
		key.Count, key.TotalDuration = of.count, of.total
		sums = append(sums, key)
	}
	return kept, sums
}

// run reports events until ctx ends.
func (c *statsCollector) run(ctx context.Context, send func(*protocol.Stats)) {
	pause := time.NewTicker(statsInterval)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.changed:
			c.flush(send)
			select {
			case <-ctx.Done():
			case <-pause.C:
			}
		}
	}
}
