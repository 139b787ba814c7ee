// SPDX-License-Identifier: Apache-2.0

package challengelog

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// IdleTimeout is how long after its last request a challenge ended: cert-manager
	// repeats its self check every 10 s, and a CA sends its requests within seconds.
	IdleTimeout = time.Minute
	// window is the time that an entry about suppressed requests covers.
	window = time.Minute
	// repeatInterval is the minimum time between two requests of one source that show a client
	// that needs the token, like cert-manager's self check every 10 s, and not a scan.
	repeatInterval = 5 * time.Second
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

	clients  []clientStats
	result   result
	last     report.Challenge
	source   netip.Prefix // of the first request
	repeated bool         // by that source, after repeatInterval
	logged   bool         // it got an entry
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

// ChallengeLog follows the open challenges, whether or not they get entries. It is not safe for
// concurrent use.
type ChallengeLog struct {
	reserved map[string]*group // by name; see Reserve
	others   *group
	attempts []Attempt // that ended; see TakeAttempts

	windowStart time.Time
	suppressed  uint64 // requests in the window without an entry, or without a challenge
}

// New returns an empty log.
func New() *ChallengeLog {
	return &ChallengeLog{reserved: make(map[string]*group), others: newGroup(false)}
}

// Record takes a request that just completed, and returns its entry, if it gets one,
// and the entries of challenges that had to make room.
func (l *ChallengeLog) Record(request report.Challenge, now time.Time) (entries []Entry) {
	at := key{request.Host, request.Token}
	g, limit := l.groupOf(request.Host)
	c := g.open[at]
	if c == nil {
		if len(g.open) >= limit {
			entries = l.summarize(g, g.evict(limit-limit/8), now) // some at once: it takes as long as for one
		}
		c = &Challenge{FirstRequest: request.Time, source: request.Source()}
		g.open[at] = c
	}
	before := c.result
	c.add(request)
	kind, message := Changed, changedMessage
	switch {
	case !c.logged:
		kind, message = Started, func(request *report.Challenge, _ result) string { return startedMessage(request) }
	case before == c.result:
		return entries
	}
	if !g.budgetOf(c).spend(kind, c, now) {
		l.suppressed++
		return entries
	}
	c.logged = true
	return append(entries, c.entry(kind, message(&request, before)))
}

// AddSuppressed counts requests of which only the number is known.
func (l *ChallengeLog) AddSuppressed(n uint64) { l.suppressed += n }

func (c *Challenge) add(request report.Challenge) {
	c.last = request
	c.Requests++
	c.repeated = c.repeated ||
		request.Source() == c.source && request.Time.Sub(c.FirstRequest) >= repeatInterval
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
// It must be called every few seconds while the log is pending.
func (l *ChallengeLog) Expire(now time.Time) []Entry {
	return l.end(now, func(c *Challenge) bool {
		return now.Sub(c.LastRequest) >= IdleTimeout || now.Sub(c.FirstRequest) >= maxDuration
	})
}

// IsPending reports whether Expire will have something to do.
func (l *ChallengeLog) IsPending() bool {
	if l.suppressed > 0 || len(l.others.open) > 0 {
		return true
	}
	for _, g := range l.reserved {
		if len(g.open) > 0 {
			return true
		}
	}
	return false
}

// EndAll ends all open challenges.
func (l *ChallengeLog) EndAll(now time.Time) []Entry {
	l.windowStart = time.Time{}
	return l.end(now, func(*Challenge) bool { return true })
}

func (l *ChallengeLog) end(now time.Time, hasEnded func(*Challenge) bool) []Entry {
	entries := l.endGroup(l.others, now, hasEnded)
	for _, name := range slices.Sorted(maps.Keys(l.reserved)) {
		entries = append(entries, l.endGroup(l.reserved[name], now, hasEnded)...)
	}
	if now.Sub(l.windowStart) < window {
		return entries
	}
	if l.suppressed > 0 {
		entries = append(entries, Entry{Kind: Suppressed, Suppressed: l.suppressed, Message: suppressedMessage(l.suppressed)})
	}
	l.windowStart, l.suppressed = now, 0
	return entries
}

func (l *ChallengeLog) endGroup(g *group, now time.Time, hasEnded func(*Challenge) bool) []Entry {
	var ended []*Challenge
	for at, c := range g.open {
		if hasEnded(c) {
			ended = append(ended, c)
			delete(g.open, at)
		}
	}
	// If the budget is short, the challenges that lasted get the entries.
	slices.SortFunc(ended, func(a, b *Challenge) int {
		return cmp.Or(cmp.Compare(b.duration(), a.duration()), a.FirstRequest.Compare(b.FirstRequest),
			cmp.Compare(a.last.Token, b.last.Token))
	})
	return l.summarize(g, ended, now)
}

func (c *Challenge) duration() time.Duration { return c.LastRequest.Sub(c.FirstRequest) }

// summarize returns the last entries of challenges, and keeps the attempts to which they belong.
func (l *ChallengeLog) summarize(g *group, ended []*Challenge, now time.Time) []Entry {
	entries := make([]Entry, 0, len(ended)+1)
	for _, c := range ended {
		if g.reserved && c.isAttempt() {
			l.attempts = append(l.attempts, c.attempt())
		}
		// The first entry of a single request contains everything. Other requests without
		// entries are counted.
		if c.Requests == 1 || !g.budgetOf(c).spend(Ended, c, now) {
			continue
		}
		e := c.entry(Ended, c.summary())
		e.Warn = c.result.failed() || c.Answered == 0 && c.isAttempt()
		entries = append(entries, e)
	}
	return entries
}

// TakeAttempts returns the attempts to get a certificate for a reserved name that ended since
// the last call, whether or not their challenges got entries.
func (l *ChallengeLog) TakeAttempts() []Attempt {
	taken := l.attempts
	l.attempts = nil
	return taken
}

// fromKnownClient reports whether cert-manager or a CA requested the challenge. A stranger's
// scan needs no fix.
func (c *Challenge) fromKnownClient() bool {
	return slices.ContainsFunc(c.clients, func(s clientStats) bool { return !unknownClient(s.kind) })
}
