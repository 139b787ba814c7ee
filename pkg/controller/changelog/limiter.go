// SPDX-License-Identifier: Apache-2.0

package changelog

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/logbudget"
)

const (
	// burst is how many changes of a subject have their own entry at once, and refill how
	// many a minute after that. keepalived removes and adds its VIPs again at its start.
	burst, refill = 6, 6
	// summaryInterval is when changes without their own entry are summarised.
	summaryInterval = 10 * time.Second
	// subjectLifetime is how long a subject that does not change is recorded: its budget
	// is full again before.
	subjectLifetime = 10 * time.Minute
)

// Entry is a journal entry about a change.
type Entry struct {
	Subject string // what has changed: the state, or a VIP
	Level   slog.Level
	Message string // what is true from now on
	Attrs   []slog.Attr
}

// limiter decides which changes have their own entry. It does no I/O.
type limiter struct {
	subjects map[string]*subject
}

// subject is something that changes.
type subject struct {
	budget  logbudget.Budget
	changed time.Time // last

	changes int       // without an entry
	since   time.Time // the first of them
	last    Entry     // the last of them
}

func newLimiter() limiter { return limiter{subjects: make(map[string]*subject)} }

// record takes a change, and reports whether its entry is written now. A change never
// has an entry before an earlier one of its subject.
func (l *limiter) record(e Entry, now time.Time) (write bool) {
	s := l.subjects[e.Subject]
	if s == nil {
		l.prune(now)
		s = &subject{budget: logbudget.New(burst, refill)}
		l.subjects[e.Subject] = s
	}
	s.changed = now
	if s.changes == 0 && s.budget.Spend(now) {
		return true
	}
	if s.changes == 0 {
		s.since = now
	}
	s.changes++
	s.last = e
	return false
}

// prune removes subjects that have not changed for a while: VIPs can be removed from the
// configuration.
func (l *limiter) prune(now time.Time) {
	maps.DeleteFunc(l.subjects, func(_ string, s *subject) bool {
		return s.changes == 0 && now.Sub(s.changed) > subjectLifetime
	})
}

// due returns when the next summary must be written; the zero time means none.
func (l *limiter) due() (first time.Time) {
	for _, s := range l.subjects {
		if at := s.since.Add(summaryInterval); s.changes > 0 && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// summarize returns the summaries that are due, oldest first. all returns the others too.
func (l *limiter) summarize(now time.Time, all bool) []Entry {
	var ready []*subject
	for _, s := range l.subjects {
		if s.changes > 0 && (all || now.Sub(s.since) >= summaryInterval) {
			ready = append(ready, s)
		}
	}
	slices.SortFunc(ready, func(a, b *subject) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.last.Subject, b.last.Subject))
	})
	entries := make([]Entry, 0, len(ready))
	for _, s := range ready {
		entries = append(entries, s.summary(now))
		s.budget.Spend(now)
		s.changes, s.last = 0, Entry{}
	}
	return entries
}

// summary returns the last entry, with the number of the changes that it stands for.
func (s *subject) summary(now time.Time) Entry {
	e := s.last
	if s.changes > 1 {
		e.Message = fmt.Sprintf("%s (the last of %d changes in %v)", e.Message, s.changes, now.Sub(s.since).Round(time.Second))
		e.Attrs = append(slices.Clone(e.Attrs), slog.Int("count", s.changes))
	}
	return e
}
