// SPDX-License-Identifier: Apache-2.0

package story

import (
	"cmp"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/status"
)

const (
	// Quiet is how long after its last request a challenge is over: cert-manager
	// repeats its self check every 10 s, and a CA asks within seconds of being told.
	Quiet = time.Minute
	// window is what the budgets are for.
	window = time.Minute
	// maxOpen bounds the challenges that are followed at a time.
	maxOpen = 256
	// maxChanges bounds the lines of one challenge whose outcome goes to and fro.
	maxChanges = 20

	// Stories that may begin in a window: enough for cert-manager's 60 challenges
	// at a time, and few for who is neither it nor a CA.
	namedBudget = 60
	otherBudget = 10
	// goodBudget is for challenges that a solver has answered, which no stranger can
	// make up.
	goodBudget = 120
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
	Request status.Challenge // that made the line; the last one's for Over
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
	changes int
}

// asker is what requests of one kind of client came to.
type asker struct {
	who       status.Asker
	all, good uint64
	last      ending
}

// ending is an outcome in its details: a change of it is told.
type ending struct {
	outcome status.Outcome
	status  int
	cause   string
}

func endingOf(c *status.Challenge) ending { return ending{c.Outcome, c.Status, c.Cause} }

type key struct {
	host  string
	token uint64
}

// Teller follows the challenges that are open. It is not safe for concurrent use.
type Teller struct {
	open map[key]*told

	since       time.Time // of this window
	named       int       // stories that have begun in it, by whom
	other, good int
	muted       uint64 // requests in it that belong to no story
}

// told is a story that is open.
type told struct {
	Story
	last status.Challenge
}

// New returns a teller that knows of nothing.
func New() *Teller { return &Teller{open: make(map[key]*told)} }

// Heard takes a request that has ended, and returns the line that it makes, if
// any.
func (t *Teller) Heard(c status.Challenge) (Line, bool) {
	at := key{c.Host, c.Token}
	s := t.open[at]
	if s == nil {
		if len(t.open) >= maxOpen || !t.mayBegin(&c) {
			t.muted++
			return Line{}, false
		}
		s = &told{Story: Story{Begun: c.Time}}
		t.open[at] = s
	}
	before, first := s.outcome, s.Requests == 0
	s.add(c)
	switch {
	case first:
		return s.line(Begun, begun(&c), s.outcome), true
	case before != s.outcome && s.changes < maxChanges:
		s.changes++
		return s.line(Changed, changed(&c, before), s.outcome), true
	default:
		return Line{}, false
	}
}

// Unheard counts requests of which no more is known.
func (t *Teller) Unheard(n uint64) { t.muted += n }

// mayBegin spends the budget of who asks.
func (t *Teller) mayBegin(c *status.Challenge) bool {
	of, budget := &t.other, otherBudget
	switch {
	case c.Outcome == status.Answered:
		of, budget = &t.good, goodBudget
	case c.Asker != status.OtherAsker:
		of, budget = &t.named, namedBudget
	}
	if *of >= budget {
		return false
	}
	*of++
	return true
}

func (s *told) add(c status.Challenge) {
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
	if c.Outcome == status.Answered {
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
// has asked for since Quiet, and what had no lines in this window. It is to be
// called every few seconds.
func (t *Teller) Passed(now time.Time) []Line {
	return t.end(now, func(s *told) bool { return now.Sub(s.Last) >= Quiet })
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
	lines := make([]Line, 0, len(ended)+1)
	for _, s := range ended {
		if s.Requests == 1 && s.Good == 0 && !s.wanted() {
			continue // a stranger's one request: all of it has been said
		}
		line := s.line(Over, s.summary(), s.outcome)
		line.Bad = s.outcome.bad() || s.Good == 0 && s.wanted()
		lines = append(lines, line)
	}
	if now.Sub(t.since) < window {
		return lines
	}
	if t.muted > 0 {
		lines = append(lines, Line{Kind: Muted, Muted: t.muted, Message: muted(t.muted)})
	}
	t.since, t.named, t.other, t.good, t.muted = now, 0, 0, 0, 0
	return lines
}

// wanted holds for a challenge that cert-manager or a CA has asked for: a scan of a
// stranger's has nothing to mend.
func (s *told) wanted() bool {
	return slices.ContainsFunc(s.askers, func(a asker) bool { return a.who != status.OtherAsker && a.who != status.StepCA })
}
