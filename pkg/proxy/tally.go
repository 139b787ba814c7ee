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
	// newsPause is what the gate waits before it tells more: a flood is summed
	// up rather than told request by request.
	newsPause = 100 * time.Millisecond
	// troubleEvery is how often accept's complaints are looked at.
	troubleEvery = time.Second
)

// tally is what has happened and was not told yet. Its size is bounded
// whatever happens: the last challenges, and counters.
type tally struct {
	changed chan struct{}

	mu      sync.Mutex
	news    protocol.News                              // but for the challenges
	last    [protocol.MaxChallenges]protocol.Challenge // a ring
	count   uint64                                     // of challenges, since the last flush
	sums    map[report.ForwardedCount]span             // of the same; keys have neither Count nor Took
	refused map[report.RefusalCount]uint64             // keys have no Count
	telling sync.Mutex                                 // held over taking and sending, so that news come in order
	said    uint64                                     // failures of accept that were told
}

func newTally() *tally {
	return &tally{changed: make(chan struct{}, 1), sums: make(map[report.ForwardedCount]span), refused: make(map[report.RefusalCount]uint64)}
}

// span is how many challenges took how long together.
type span struct {
	count uint64
	took  time.Duration
}

// Challenge implements gate.Recorder.
func (t *tally) Challenge(c report.Challenge, why *cause.Failure) {
	c.VIP, c.Client, c.Upstream = c.VIP.WithZone(""), cause.Unzoned(c.Client), cause.Unzoned(c.Upstream)
	c.Duration = max(0, min(c.Duration, protocol.MaxTook)) // a host may have been paused meanwhile
	c.Outcome = outcome(&c)
	key := report.ForwardedCount{ClientKind: c.ClientKind, Outcome: c.Outcome, Cause: c.Cause, Bucket: report.BucketOf(c.Duration)}
	t.mu.Lock()
	sum := t.sums[key]
	t.sums[key] = span{sum.count + 1, sum.took + c.Duration}
	t.last[t.count%protocol.MaxChallenges] = protocol.Challenge{Challenge: c, Failure: why}
	t.count++
	t.news.Undelivered = t.news.Undelivered || undelivered(c.Cause)
	t.mu.Unlock()
	t.touch()
}

// outcome is how a challenge ended, for a counter.
func outcome(c *report.Challenge) report.Outcome {
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

// undelivered holds for causes that say that the ingress, or what is on the way to it,
// may be unreachable for all.
func undelivered(cause string) bool {
	switch upstream.Cause(cause) {
	case upstream.Refused, upstream.ConnectTimeout, upstream.Unreachable,
		upstream.EgressUnreachable, upstream.EgressTLS, upstream.EgressAuth, upstream.EgressDenied:
		return true
	default:
		return false
	}
}

// Refused implements gate.Recorder.
func (t *tally) Refused(why report.Refusal, asker report.ClientKind) {
	t.mu.Lock()
	t.refused[report.RefusalCount{Refusal: why, ClientKind: asker}]++
	t.mu.Unlock()
	t.touch()
}

func (t *tally) touch() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// flush tells what there is, if anything.
func (t *tally) flush(tell func(*protocol.News)) {
	t.telling.Lock()
	defer t.telling.Unlock()
	t.mu.Lock()
	n := t.news
	n.Challenges, n.Sums = t.take()
	for sum, count := range t.refused {
		sum.Count = count
		n.Refused = append(n.Refused, sum)
	}
	clear(t.refused)
	t.news = protocol.News{}
	t.mu.Unlock()
	if len(n.Sums) == 0 && n.Refused == nil && n.Failures == 0 {
		return
	}
	tell(&n)
}

// take returns the last challenges, oldest first, and the sums of all. It needs
// mu.
func (t *tally) take() (last []protocol.Challenge, sums []report.ForwardedCount) {
	told := min(t.count, protocol.MaxChallenges)
	for i := t.count - told; i < t.count; i++ {
		at := &t.last[i%protocol.MaxChallenges]
		last = append(last, *at)
		*at = protocol.Challenge{}
	}
	t.count = 0
	for key, of := range t.sums {
		if len(sums) == protocol.MaxSums {
			t.touch() // the others are next
			break
		}
		delete(t.sums, key)
		key.Count, key.TotalDuration = of.count, of.took
		sums = append(sums, key)
	}
	return last, sums
}

// trouble adds what accept has complained of since it was last asked.
func (t *tally) trouble(s server.Stats) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.Failures == t.said {
		return
	}
	t.news.Failures += s.Failures - t.said
	t.news.LastFailure = 0
	if number := syscall.Errno(0); errors.As(s.LastFailure, &number) {
		t.news.LastFailure = uint16(number)
	}
	t.said = s.Failures
	t.touch()
}

// report tells the news until ctx ends.
func (t *tally) report(ctx context.Context, stats func() server.Stats, tell func(*protocol.News)) {
	look := time.NewTicker(troubleEvery)
	defer look.Stop()
	pause := time.NewTicker(newsPause)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			t.trouble(stats())
		case <-t.changed:
			t.flush(tell)
			select {
			case <-ctx.Done():
			case <-pause.C:
			}
		}
	}
}
