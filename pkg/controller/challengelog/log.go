// SPDX-License-Identifier: Apache-2.0

package challengelog

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// IdleTimeout is how long after its last request a challenge has ended: cert-manager
	// repeats its self check every 10 s, and a CA sends its requests within seconds.
	IdleTimeout = time.Minute
	// window is the time that an entry about suppressed requests covers.
	window = time.Minute
	// maxOpen bounds the challenges that are followed at a time.
	maxOpen = 256
	// maxDuration ends a challenge whose requests do not stop: the next one starts another
	// challenge. cert-manager gives up its own after some hours.
	maxDuration = 30 * time.Minute
)

// EventKind is what an entry is about.
type EventKind string

// The kinds of entries, which are the EVENT field of the journal.
const (
	Started    EventKind = "challenge-started"
	Changed    EventKind = "challenge-changed"
	Ended      EventKind = "challenge-ended"
	Suppressed EventKind = "challenges-suppressed"
)

// Entry is one journal entry.
type Entry struct {
	Kind       EventKind
	Warn       bool // something needs a fix
	Message    string
	Challenge  *Challenge       // nil for Suppressed
	Request    report.Challenge // that caused the entry; the last one for Ended
	Suppressed uint64           // requests without an entry
}

// Challenge is one challenge: the requests for one token of one host.
type Challenge struct {
	FirstRequest, LastRequest time.Time
	Requests                  uint64
	Answered                  uint64        // with 200
	MaxDuration               time.Duration // of the requests

	clients []clientStats
	result  result
	last    report.Challenge
}

// clientStats are the requests of one kind of client.
type clientStats struct {
	kind            report.ClientKind
	total, answered uint64
	last            result
	lastFailure     result // of the last request without 200
}

// result is the detailed outcome of a request. A changed result gets an entry.
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

// ChallengeLog follows the open challenges. It is not safe for concurrent use.
type ChallengeLog struct {
	open    map[key]*Challenge
	budgets budgets

	windowStart time.Time
	suppressed  uint64 // requests in the window that have no entry, or belong to no challenge
}

// New returns an empty log.
func New() *ChallengeLog {
	return &ChallengeLog{open: make(map[key]*Challenge), budgets: newBudgets()}
}

// Record takes a request that has just completed, and returns its entry, if it gets one,
// and the entry of a challenge that had to make room.
func (l *ChallengeLog) Record(request report.Challenge, now time.Time) []Entry {
	if request.ClientKind == report.CheckClient {
		return nil // check itself reports it
	}
	at := key{request.Host, request.Token}
	c := l.open[at]
	if c == nil {
		return l.start(at, request, now)
	}
	before := c.result
	c.add(request)
	if before == c.result {
		return nil
	}
	if !l.budgets.of(c).Spend(now) {
		l.suppressed++
		return nil
	}
	return []Entry{c.entry(Changed, changedMessage(&request, before))}
}

// start opens a challenge, unless its budget is spent.
func (l *ChallengeLog) start(at key, request report.Challenge, now time.Time) (entries []Entry) {
	c := &Challenge{FirstRequest: request.Time}
	c.add(request)
	if !l.budgets.of(c).Spend(now) {
		l.suppressed++
		return nil
	}
	if len(l.open) >= maxOpen {
		entries = l.summarize(l.evict(), now)
	}
	l.open[at] = c
	return append(entries, c.entry(Started, startedMessage(&request)))
}

// evict ends the challenge that is open for longest without the answer of a solver, or for
// longest of all. So no client can occupy all the room.
func (l *ChallengeLog) evict() []*Challenge {
	at := slices.MinFunc(slices.Collect(maps.Keys(l.open)), func(a, b key) int {
		x, y := l.open[a], l.open[b]
		return cmp.Or(cmp.Compare(min(x.Answered, 1), min(y.Answered, 1)), x.FirstRequest.Compare(y.FirstRequest))
	})
	oldest := l.open[at]
	delete(l.open, at)
	return []*Challenge{oldest}
}

// AddSuppressed counts requests of which only the number is known.
func (l *ChallengeLog) AddSuppressed(n uint64) { l.suppressed += n }

func (c *Challenge) add(request report.Challenge) {
	c.last = request
	c.Requests++
	c.result = resultOf(&request)
	if end := request.Time.Add(request.Duration); end.After(c.LastRequest) {
		c.LastRequest = end
	}
	c.MaxDuration = max(c.MaxDuration, request.Duration)
	i := slices.IndexFunc(c.clients, func(s clientStats) bool { return s.kind == request.ClientKind })
	if i < 0 {
		i = len(c.clients)
		c.clients = append(c.clients, clientStats{kind: request.ClientKind})
	}
	s := &c.clients[i]
	s.total++
	s.last = c.result
	if request.Outcome == report.Answered {
		s.answered++
		c.Answered++
	} else {
		s.lastFailure = c.result
	}
}

func (c *Challenge) entry(kind EventKind, message string) Entry {
	challenge := *c
	return Entry{Kind: kind, Warn: c.result.failed(), Message: message, Challenge: &challenge, Request: c.last}
}

// failed reports whether something needs a fix. A 404 alone does not: cert-manager's self
// check gets it until the solver runs.
func (r result) failed() bool { return r.cause != "" }

// Expire returns the entries that are due: the ends of challenges without a request since
// IdleTimeout, or that are open for too long, and the suppressed requests of the window.
// It must be called every few seconds.
func (l *ChallengeLog) Expire(now time.Time) []Entry {
	return l.end(now, func(c *Challenge) bool {
		return now.Sub(c.LastRequest) >= IdleTimeout || now.Sub(c.FirstRequest) >= maxDuration
	})
}

// EndAll ends all open challenges.
func (l *ChallengeLog) EndAll(now time.Time) []Entry {
	l.windowStart = time.Time{}
	return l.end(now, func(*Challenge) bool { return true })
}

func (l *ChallengeLog) end(now time.Time, hasEnded func(*Challenge) bool) []Entry {
	var ended []*Challenge
	for at, c := range l.open {
		if hasEnded(c) {
			ended = append(ended, c)
			delete(l.open, at)
		}
	}
	slices.SortFunc(ended, func(a, b *Challenge) int {
		return cmp.Or(a.FirstRequest.Compare(b.FirstRequest), cmp.Compare(a.last.Token, b.last.Token))
	})
	entries := l.summarize(ended, now)
	if now.Sub(l.windowStart) < window {
		return entries
	}
	if l.suppressed > 0 {
		entries = append(entries, Entry{Kind: Suppressed, Suppressed: l.suppressed, Message: suppressedMessage(l.suppressed)})
	}
	l.windowStart, l.suppressed = now, 0
	return entries
}

// summarize returns the last entry of each challenge.
func (l *ChallengeLog) summarize(ended []*Challenge, now time.Time) []Entry {
	entries := make([]Entry, 0, len(ended)+1)
	for _, c := range ended {
		if c.Requests == 1 && c.Answered == 0 && !c.fromKnownClient() {
			continue // the first entry of a stranger's only request has everything
		}
		if !l.budgets.of(c).Spend(now) {
			continue // its requests have entries, or are counted
		}
		e := c.entry(Ended, c.summary())
		e.Warn = c.result.failed() || c.Answered == 0 && c.fromKnownClient()
		entries = append(entries, e)
	}
	return entries
}

// fromKnownClient reports whether cert-manager or a CA has requested the challenge. A scan
// of a stranger needs no fix.
func (c *Challenge) fromKnownClient() bool {
	return slices.ContainsFunc(c.clients, func(s clientStats) bool { return !unknownClient(s.kind) })
}
