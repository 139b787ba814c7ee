// SPDX-License-Identifier: Apache-2.0

package challengelog

import (
	"cmp"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// Quiet is how long after its last request a challenge is over: cert-manager
	// repeats its self check every 10 s, and a CA asks within seconds of being told.
	Quiet = time.Minute
	// window is what a sum of what has no lines is for.
	window = time.Minute
	// maxOpen bounds the challenges that are followed at a time.
	maxOpen = 256
	// maxAge ends a challenge that somebody never stops to ask for: the next request
	// begins another story. cert-manager gives up its own after some hours.
	maxAge = 30 * time.Minute
)

// Kind is what a line is about.
type Kind string

// The kinds of lines, which are the journal's EVENT.
const (
	Begun   Kind = "challenge-begun"
	Changed Kind = "challenge-changed"
	Over    Kind = "challenge-over"
	Muted   Kind = "challenges-muted"
)

// Line is one line for the journal.
type Line struct {
	Kind    Kind
	Bad     bool // something is wrong
	Message string
	Story   *Story           // nil for Muted
	Request report.Challenge // that made the line; the last one's for Over
	Muted   uint64           // requests without a line of their own
}

// Story is one challenge: the requests for one token of one host.
type Story struct {
	Begun, Last time.Time
	Requests    uint64
	Good        uint64        // answered with 200
	Longest     time.Duration // of the requests

	askers  []asker
	outcome ending
}

// asker is what requests of one kind of client came to.
type asker struct {
	who       report.Asker
	all, good uint64
	last      ending
}

// ending is an outcome in its details: a change of it is told.
type ending struct {
	outcome report.Outcome
	status  int
	cause   string
}

func endingOf(c *report.Challenge) ending { return ending{c.Outcome, c.Status, c.Cause} }

type key struct {
	host  string
	token uint64
}

// Teller follows the challenges that are open. It is not safe for concurrent use.
type Teller struct {
	open  map[key]*told
	lines budgets

	since time.Time // of this window
	muted uint64    // requests in it that would have had a line, or belong to no story
}

// told is a story that is open.
type told struct {
	Story
	last report.Challenge
}

// New returns a teller that knows of nothing.
func New() *Teller { return &Teller{open: make(map[key]*told), lines: newBudgets()} }

// Heard takes a request that has ended just now, and returns the lines that it
// makes: its own, and the end of a challenge that makes room.
func (t *Teller) Heard(c report.Challenge, now time.Time) []Line {
	if c.Asker == report.OwnCheck {
		return nil // whoever runs it reads what it says
	}
	at := key{c.Host, c.Token}
	s := t.open[at]
	if s == nil {
		return t.begin(at, c, now)
	}
	before := s.outcome
	s.add(c)
	if before == s.outcome {
		return nil
	}
	if !t.lines.of(s).spend(now) {
		t.muted++
		return nil
	}
	return []Line{s.line(Changed, changed(&c, before), s.outcome)}
}

// begin begins a story, unless there are no lines for it.
func (t *Teller) begin(at key, c report.Challenge, now time.Time) (lines []Line) {
	s := &told{Story: Story{Begun: c.Time}}
	s.add(c)
	if !t.lines.of(s).spend(now) {
		t.muted++
		return nil
	}
	if len(t.open) >= maxOpen {
		lines = t.over(t.evict(), now)
	}
	t.open[at] = s
	return append(lines, s.line(Begun, begun(&c), s.outcome))
}

// evict ends the challenge that has gone on for longest without an answer of a
// solver, or for longest of all. So nobody can hold all the room.
func (t *Teller) evict() []*told {
	var oldest *told
	var at key
	for k, s := range t.open {
		if oldest == nil || before(s, oldest) {
			oldest, at = s, k
		}
	}
	delete(t.open, at)
	return []*told{oldest}
}

// before holds for a story that makes room before another.
func before(s, other *told) bool {
	if proven := s.Good > 0; proven != (other.Good > 0) {
		return !proven
	}
	return s.Begun.Before(other.Begun)
}

// Unheard counts requests of which no more is known.
func (t *Teller) Unheard(n uint64) { t.muted += n }

func (s *told) add(c report.Challenge) {
	s.last = c
	s.Requests++
	s.outcome = endingOf(&c)
	if end := c.Time.Add(c.Duration); end.After(s.Last) {
		s.Last = end
	}
	s.Longest = max(s.Longest, c.Duration)
	i := slices.IndexFunc(s.askers, func(a asker) bool { return a.who == c.Asker })
	if i < 0 {
		i = len(s.askers)
		s.askers = append(s.askers, asker{who: c.Asker})
	}
	a := &s.askers[i]
	a.all++
	a.last = s.outcome
	if c.Outcome == report.Answered {
		a.good++
		s.Good++
	}
}

func (s *told) line(kind Kind, message string, e ending) Line {
	story := s.Story
	return Line{Kind: kind, Bad: e.bad(), Message: message, Story: &story, Request: s.last}
}

// bad holds for outcomes with something to mend. A 404 is none by itself: it is
// what cert-manager's self check sees until its solver is there.
func (e ending) bad() bool { return e.cause != "" }

// Passed returns the lines that time brings: the ends of challenges that nobody
// has asked for since Quiet, or that have gone on for too long, and what had no
// lines in this window. It is to be called every few seconds.
func (t *Teller) Passed(now time.Time) []Line {
	return t.end(now, func(s *told) bool { return now.Sub(s.Last) >= Quiet || now.Sub(s.Begun) >= maxAge })
}

// Finish ends all that is open.
func (t *Teller) Finish(now time.Time) []Line {
	t.since = time.Time{}
	return t.end(now, func(*told) bool { return true })
}

func (t *Teller) end(now time.Time, over func(*told) bool) []Line {
	var ended []*told
	for at, s := range t.open {
		if over(s) {
			ended = append(ended, s)
			delete(t.open, at)
		}
	}
	slices.SortFunc(ended, func(a, b *told) int {
		return cmp.Or(a.Begun.Compare(b.Begun), cmp.Compare(a.last.Token, b.last.Token))
	})
	lines := t.over(ended, now)
	if now.Sub(t.since) < window {
		return lines
	}
	if t.muted > 0 {
		lines = append(lines, Line{Kind: Muted, Muted: t.muted, Message: muted(t.muted)})
	}
	t.since, t.muted = now, 0
	return lines
}

// over sums challenges up.
func (t *Teller) over(ended []*told, now time.Time) []Line {
	lines := make([]Line, 0, len(ended)+1)
	for _, s := range ended {
		if s.Requests == 1 && s.Good == 0 && !s.wanted() {
			continue // a stranger's one request: all of it has been said
		}
		if !t.lines.of(s).spend(now) {
			continue // its requests were told of, or are counted
		}
		line := s.line(Over, s.summary(), s.outcome)
		line.Bad = s.outcome.bad() || s.Good == 0 && s.wanted()
		lines = append(lines, line)
	}
	return lines
}

// wanted holds for a challenge that cert-manager or a CA has asked for: a scan of a
// stranger's has nothing to mend.
func (s *told) wanted() bool {
	return slices.ContainsFunc(s.askers, func(a asker) bool { return !stranger(a.who) })
}
