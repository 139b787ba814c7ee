// SPDX-License-Identifier: Apache-2.0

package frontdoor

import (
	"context"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/control"
	"github.com/http01-proxyd/http01-proxyd/pkg/gate"
	"github.com/http01-proxyd/http01-proxyd/pkg/status"
	"github.com/http01-proxyd/http01-proxyd/pkg/upstream"
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
	news    control.News                            // but for the challenges
	last    [control.MaxChallenges]status.Challenge // a ring
	count   uint64                                  // of challenges, since the last flush
	telling sync.Mutex                              // held over taking and sending, so that news come in order
	said    uint64                                  // failures of accept that were told
}

func newTally() *tally {
	return &tally{changed: make(chan struct{}, 1)}
}

// Challenge implements gate.Recorder.
func (t *tally) Challenge(c status.Challenge) {
	c.Detail = control.Line(c.Detail)
	t.mu.Lock()
	t.last[t.count%control.MaxChallenges] = c
	t.count++
	t.news.Undelivered = t.news.Undelivered || undelivered(c.Cause)
	t.mu.Unlock()
	t.touch()
}

// undelivered holds for causes that say that the ingress may be unreachable.
func undelivered(cause string) bool {
	switch upstream.Cause(cause) {
	case upstream.Refused, upstream.ConnectTimeout, upstream.Unreachable:
		return true
	default:
		return false
	}
}

// Refused implements gate.Recorder.
func (t *tally) Refused(why status.Refusal) {
	t.mu.Lock()
	if t.news.Refused == nil {
		t.news.Refused = make(map[status.Refusal]uint64)
	}
	t.news.Refused[why]++
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
func (t *tally) flush(tell func(*control.News)) {
	t.telling.Lock()
	defer t.telling.Unlock()
	t.mu.Lock()
	n := t.news
	n.Challenges, n.Untold = t.take()
	t.news = control.News{}
	t.mu.Unlock()
	if len(n.Challenges) == 0 && n.Refused == nil && n.Failures == 0 {
		return
	}
	tell(&n)
}

// take returns the last challenges, oldest first, and how many there were
// besides. It needs mu.
func (t *tally) take() (last []status.Challenge, untold uint64) {
	told := min(t.count, control.MaxChallenges)
	for i := t.count - told; i < t.count; i++ {
		at := &t.last[i%control.MaxChallenges]
		last = append(last, *at)
		*at = status.Challenge{}
	}
	untold = t.count - told
	t.count = 0
	return last, untold
}

// trouble adds what accept has complained of since it was last asked.
func (t *tally) trouble(s gate.Stats) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.Failures == t.said {
		return
	}
	t.news.Failures += s.Failures - t.said
	t.news.LastFailure = control.Line(s.LastFailure.Error())
	t.said = s.Failures
	t.touch()
}

// report tells the news until ctx ends.
func (t *tally) report(ctx context.Context, stats func() gate.Stats, tell func(*control.News)) {
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
