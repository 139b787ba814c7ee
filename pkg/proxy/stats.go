// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/server"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// statsInterval is the shortest time between two reports. A flood is reported
	// as sums, not request by request.
	statsInterval = 100 * time.Millisecond
	// acceptErrorInterval is how often the errors of accept are read.
	acceptErrorInterval = time.Second
)

// statsCollector holds the events that were not reported yet. Its size is bounded:
// the last challenges, and counters.
type statsCollector struct {
	changed chan struct{}

	mu               sync.Mutex
	pending          protocol.Stats                             // without the challenges
	challenges       [protocol.MaxChallenges]protocol.Challenge // a ring buffer
	challengeCount   uint64                                     // challenges since the last flush
	sums             map[report.ForwardedCount]durationSum      // of the same; keys have neither Count nor TotalDuration
	refusals         map[report.RefusalCount]uint64             // keys have no Count
	sending          sync.Mutex                                 // held during both take and send, which keeps the reports in order
	reportedFailures uint64                                     // accept failures that were reported
}

func newStatsCollector() *statsCollector {
	return &statsCollector{changed: make(chan struct{}, 1), sums: make(map[report.ForwardedCount]durationSum), refusals: make(map[report.RefusalCount]uint64)}
}

// durationSum is a number of challenges and their total duration.
type durationSum struct {
	count uint64
	total time.Duration
}

// RecordChallenge implements server.Recorder.
func (t *statsCollector) RecordChallenge(c report.Challenge, why *cause.Failure) {
	c.VIP, c.Client, c.Upstream = c.VIP.WithZone(""), cause.WithoutZone(c.Client), cause.WithoutZone(c.Upstream)
	c.Duration = max(0, min(c.Duration, protocol.MaxRequestDuration)) // a host may have been suspended meanwhile
	c.Outcome = outcomeOf(&c)
	key := report.ForwardedCount{ClientKind: c.ClientKind, Outcome: c.Outcome, Cause: c.Cause, Bucket: report.BucketOf(c.Duration)}
	t.mu.Lock()
	sum := t.sums[key]
	t.sums[key] = durationSum{sum.count + 1, sum.total + c.Duration}
	t.challenges[t.challengeCount%protocol.MaxChallenges] = protocol.Challenge{Challenge: c, Failure: why}
	t.challengeCount++
	t.pending.UpstreamFailed = t.pending.UpstreamFailed || isDeliveryFailure(c.Cause)
	t.mu.Unlock()
	t.notify()
}

// outcomeOf returns the outcome of a challenge for a counter.
func outcomeOf(c *report.Challenge) report.Outcome {
	switch cause := upstream.Cause(c.Cause); {
	case cause == upstream.NoRoute:
		return report.NoRoute
	case cause == upstream.RedirectToHTTPS, cause == upstream.RedirectLoop, cause == upstream.RedirectElsewhere:
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
	switch upstream.Cause(cause) {
	case upstream.Refused, upstream.ConnectTimeout, upstream.Unreachable,
		upstream.EgressUnreachable, upstream.EgressTLS, upstream.EgressAuth, upstream.EgressDenied:
		return true
	default:
		return false
	}
}

// RecordRefusal implements server.Recorder.
func (t *statsCollector) RecordRefusal(why report.Refusal, asker report.ClientKind) {
	t.mu.Lock()
	t.refusals[report.RefusalCount{Refusal: why, ClientKind: asker}]++
	t.mu.Unlock()
	t.notify()
}

func (t *statsCollector) notify() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// flush reports all events that were not reported yet, if there are any.
func (t *statsCollector) flush(tell func(*protocol.Stats)) {
	t.sending.Lock()
	defer t.sending.Unlock()
	t.mu.Lock()
	n := t.pending
	n.Challenges, n.Sums = t.takeChallenges()
	for sum, count := range t.refusals {
		sum.Count = count
		n.Refused = append(n.Refused, sum)
	}
	clear(t.refusals)
	t.pending = protocol.Stats{}
	t.mu.Unlock()
	if len(n.Sums) == 0 && n.Refused == nil && n.AcceptFailures == 0 {
		return
	}
	tell(&n)
}

// takeChallenges returns the last challenges, the oldest first, and the sums of
// all. The caller holds mu.
func (t *statsCollector) takeChallenges() (last []protocol.Challenge, sums []report.ForwardedCount) {
	told := min(t.challengeCount, protocol.MaxChallenges)
	for i := t.challengeCount - told; i < t.challengeCount; i++ {
		at := &t.challenges[i%protocol.MaxChallenges]
		last = append(last, *at)
		*at = protocol.Challenge{}
	}
	t.challengeCount = 0
	for key, of := range t.sums {
		if len(sums) == protocol.MaxRequestSums {
			t.notify() // the next report contains the rest
			break
		}
		delete(t.sums, key)
		key.Count, key.TotalDuration = of.count, of.total
		sums = append(sums, key)
	}
	return last, sums
}

// addAcceptErrors adds the errors of accept since the last call.
func (t *statsCollector) addAcceptErrors(s server.Stats) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.Failures == t.reportedFailures {
		return
	}
	t.pending.AcceptFailures += s.Failures - t.reportedFailures
	t.pending.LastAcceptErrno = 0
	if number := syscall.Errno(0); errors.As(s.LastFailure, &number) {
		t.pending.LastAcceptErrno = uint16(number)
	}
	t.reportedFailures = s.Failures
	t.notify()
}

// run reports events until ctx ends.
func (t *statsCollector) run(ctx context.Context, stats func() server.Stats, tell func(*protocol.Stats)) {
	look := time.NewTicker(acceptErrorInterval)
	defer look.Stop()
	pause := time.NewTicker(statsInterval)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			t.addAcceptErrors(stats())
		case <-t.changed:
			t.flush(tell)
			select {
			case <-ctx.Done():
			case <-pause.C:
			}
		}
	}
}
