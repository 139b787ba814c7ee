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
	// statsInterval is what the gate waits before it tells more: a flood is summed
	// up rather than told request by request.
	statsInterval = 100 * time.Millisecond
	// acceptErrorInterval is how often accept's complaints are looked at.
	acceptErrorInterval = time.Second
)

// statsCollector is what has happened and was not told yet. Its size is bounded
// whatever happens: the last challenges, and counters.
type statsCollector struct {
	changed chan struct{}

	mu               sync.Mutex
	pending          protocol.Stats                             // but for the challenges
	challenges       [protocol.MaxChallenges]protocol.Challenge // a ring
	challengeCount   uint64                                     // of challenges, since the last flush
	sums             map[report.ForwardedCount]durationSum      // of the same; keys have neither Count nor Took
	refusals         map[report.RefusalCount]uint64             // keys have no Count
	sending          sync.Mutex                                 // held over taking and sending, so that news come in order
	reportedFailures uint64                                     // failures of accept that were told
}

func newStatsCollector() *statsCollector {
	return &statsCollector{changed: make(chan struct{}, 1), sums: make(map[report.ForwardedCount]durationSum), refusals: make(map[report.RefusalCount]uint64)}
}

// durationSum is how many challenges took how long together.
type durationSum struct {
	count uint64
	total time.Duration
}

// Challenge implements gate.Recorder.
func (t *statsCollector) RecordChallenge(c report.Challenge, why *cause.Failure) {
	c.VIP, c.Client, c.Upstream = c.VIP.WithZone(""), cause.WithoutZone(c.Client), cause.WithoutZone(c.Upstream)
	c.Duration = max(0, min(c.Duration, protocol.MaxRequestDuration)) // a host may have been paused meanwhile
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

// outcomeOf is how a challenge ended, for a counter.
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

// isDeliveryFailure holds for causes that say that the ingress, or what is on the way to it,
// may be unreachable for all.
func isDeliveryFailure(cause string) bool {
	switch upstream.Cause(cause) {
	case upstream.Refused, upstream.ConnectTimeout, upstream.Unreachable,
		upstream.EgressUnreachable, upstream.EgressTLS, upstream.EgressAuth, upstream.EgressDenied:
		return true
	default:
		return false
	}
}

// Refused implements gate.Recorder.
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

// flush tells what there is, if anything.
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

// takeChallenges returns the last challenges, oldest first, and the sums of all. It needs
// mu.
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
			t.notify() // the others are next
			break
		}
		delete(t.sums, key)
		key.Count, key.TotalDuration = of.count, of.total
		sums = append(sums, key)
	}
	return last, sums
}

// addAcceptErrors adds what accept has complained of since it was last asked.
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

// run tells the news until ctx ends.
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
