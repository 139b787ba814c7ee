// SPDX-License-Identifier: Apache-2.0

package challengelog

import (
	"cmp"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// IdleTimeout is how long after its last request a challenge is over: cert-manager
	// repeats its self check every 10 s, and a CA asks within seconds of being told.
	IdleTimeout = time.Minute
	// window is what a sum of what has no lines is for.
	window = time.Minute
	// maxOpen bounds the challenges that are followed at a time.
	maxOpen = 256
	// maxDuration ends a challenge that somebody never stops to ask for: the next request
	// begins another story. cert-manager gives up its own after some hours.
	maxDuration = 30 * time.Minute
)

// EventKind is what a line is about.
type EventKind string

// The kinds of lines, which are the journal's EVENT.
const (
	Started    EventKind = "challenge-begun"
	Changed    EventKind = "challenge-changed"
	Ended      EventKind = "challenge-over"
	Suppressed EventKind = "challenges-muted"
)

// Entry is one line for the journal.
type Entry struct {
	Kind       EventKind
	Warn       bool // something is wrong
	Message    string
	Challenge  *Challenge       // nil for Muted
	Request    report.Challenge // that made the line; the last one's for Over
	Suppressed uint64           // requests without a line of their own
}

// Challenge is one challenge: the requests for one token of one host.
type Challenge struct {
	FirstRequest, LastRequest time.Time
	Requests                  uint64
	Answered                  uint64        // answered with 200
	MaxDuration               time.Duration // of the requests

	clients []clientStats
	result  result
}

// clientStats is what requests of one kind of client came to.
type clientStats struct {
	kind            report.ClientKind
	total, answered uint64
	last            result
}

// result is an outcome in its details: a change of it is told.
type result struct {
	outcome report.Outcome
	status  int
	cause   string
}

func resultOf(c *report.Challenge) result { return result{c.Outcome, c.Status, c.Cause} }

type key struct {
	host  string
	token uint64
}

// ChallengeLog follows the challenges that are open. It is not safe for concurrent use.
type ChallengeLog struct {
	open    map[key]*openChallenge
	budgets budgets

	windowStart time.Time // of this window
	suppressed  uint64    // requests in it that would have had a line, or belong to no story
}

// openChallenge is a story that is open.
type openChallenge struct {
	Challenge
	last report.Challenge
}

// New returns a teller that knows of nothing.
func New() *ChallengeLog {
	return &ChallengeLog{open: make(map[key]*openChallenge), budgets: newBudgets()}
}

// Record takes a request that has ended just now, and returns the lines that it
// makes: its own, and the end of a challenge that makes room.
func (t *ChallengeLog) Record(c report.Challenge, now time.Time) []Entry {
	if c.ClientKind == report.CheckClient {
		return nil // whoever runs it reads what it says
	}
	at := key{c.Host, c.Token}
	s := t.open[at]
	if s == nil {
		return t.start(at, c, now)
	}
	before := s.result
	s.add(c)
	if before == s.result {
		return nil
	}
	if !t.budgets.of(s).spend(now) {
		t.suppressed++
		return nil
	}
	return []Entry{s.entry(Changed, changedMessage(&c, before), s.result)}
}

// startTime begins a story, unless there are no lines for it.
func (t *ChallengeLog) start(at key, c report.Challenge, now time.Time) (lines []Entry) {
	s := &openChallenge{Challenge: Challenge{FirstRequest: c.Time}}
	s.add(c)
	if !t.budgets.of(s).spend(now) {
		t.suppressed++
		return nil
	}
	if len(t.open) >= maxOpen {
		lines = t.summarize(t.evict(), now)
	}
	t.open[at] = s
	return append(lines, s.entry(Started, startedMessage(&c), s.result))
}

// evict ends the challenge that has gone on for longest without an answer of a
// solver, or for longest of all. So nobody can hold all the room.
func (t *ChallengeLog) evict() []*openChallenge {
	var oldest *openChallenge
	var at key
	for k, s := range t.open {
		if oldest == nil || evictedBefore(s, oldest) {
			oldest, at = s, k
		}
	}
	delete(t.open, at)
	return []*openChallenge{oldest}
}

// evictedBefore holds for a story that makes room before another.
func evictedBefore(s, other *openChallenge) bool {
	if proven := s.Answered > 0; proven != (other.Answered > 0) {
		return !proven
	}
	return s.FirstRequest.Before(other.FirstRequest)
}

// AddSuppressed counts requests of which no more is known.
func (t *ChallengeLog) AddSuppressed(n uint64) { t.suppressed += n }

func (s *openChallenge) add(c report.Challenge) {
	s.last = c
	s.Requests++
	s.result = resultOf(&c)
	if end := c.Time.Add(c.Duration); end.After(s.LastRequest) {
		s.LastRequest = end
	}
	s.MaxDuration = max(s.MaxDuration, c.Duration)
	i := slices.IndexFunc(s.clients, func(a clientStats) bool { return a.kind == c.ClientKind })
	if i < 0 {
		i = len(s.clients)
		s.clients = append(s.clients, clientStats{kind: c.ClientKind})
	}
	a := &s.clients[i]
	a.total++
	a.last = s.result
	if c.Outcome == report.Answered {
		a.answered++
		s.Answered++
	}
}

func (s *openChallenge) entry(kind EventKind, message string, e result) Entry {
	story := s.Challenge
	return Entry{Kind: kind, Warn: e.failed(), Message: message, Challenge: &story, Request: s.last}
}

// failed holds for outcomes with something to mend. A 404 is none by itself: it is
// what cert-manager's self check sees until its solver is there.
func (e result) failed() bool { return e.cause != "" }

// Expire returns the lines that time brings: the ends of challenges that nobody
// has asked for since Quiet, or that have gone on for too long, and what had no
// lines in this window. It is to be called every few seconds.
func (t *ChallengeLog) Expire(now time.Time) []Entry {
	return t.end(now, func(s *openChallenge) bool {
		return now.Sub(s.LastRequest) >= IdleTimeout || now.Sub(s.FirstRequest) >= maxDuration
	})
}

// EndAll ends all that is open.
func (t *ChallengeLog) EndAll(now time.Time) []Entry {
	t.windowStart = time.Time{}
	return t.end(now, func(*openChallenge) bool { return true })
}

func (t *ChallengeLog) end(now time.Time, over func(*openChallenge) bool) []Entry {
	var ended []*openChallenge
	for at, s := range t.open {
		if over(s) {
			ended = append(ended, s)
			delete(t.open, at)
		}
	}
	slices.SortFunc(ended, func(a, b *openChallenge) int {
		return cmp.Or(a.FirstRequest.Compare(b.FirstRequest), cmp.Compare(a.last.Token, b.last.Token))
	})
	lines := t.summarize(ended, now)
	if now.Sub(t.windowStart) < window {
		return lines
	}
	if t.suppressed > 0 {
		lines = append(lines, Entry{Kind: Suppressed, Suppressed: t.suppressed, Message: suppressedMessage(t.suppressed)})
	}
	t.windowStart, t.suppressed = now, 0
	return lines
}

// summarize sums challenges up.
func (t *ChallengeLog) summarize(ended []*openChallenge, now time.Time) []Entry {
	lines := make([]Entry, 0, len(ended)+1)
	for _, s := range ended {
		if s.Requests == 1 && s.Answered == 0 && !s.fromKnownClient() {
			continue // a stranger's one request: all of it has been said
		}
		if !t.budgets.of(s).spend(now) {
			continue // its requests were told of, or are counted
		}
		line := s.entry(Ended, s.summary(), s.result)
		line.Warn = s.result.failed() || s.Answered == 0 && s.fromKnownClient()
		lines = append(lines, line)
	}
	return lines
}

// known holds for a challenge that cert-manager or a CA has asked for: a scan of a
// stranger's has nothing to mend.
func (s *openChallenge) fromKnownClient() bool {
	return slices.ContainsFunc(s.clients, func(a clientStats) bool { return !unknownClient(a.kind) })
}
