// SPDX-License-Identifier: Apache-2.0

package changelog

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/logbudget"
)

const (
	// burst is how many changes of a subject get their own entry at once, and refill how many
	// more a minute. keepalived removes and adds its VIPs again at its start.
	burst, refill = 6, 6
	// summaryInterval is when changes without their own entry are summarised.
	summaryInterval = 10 * time.Second
	// subjectLifetime is how long a subject that does not change is recorded: its budget
	// is full again before.
	subjectLifetime = 10 * time.Minute
)

// Entry is a journal entry about a change.
type Entry struct {
	Subject string // what changed: the state, or a VIP
	Level   slog.Level
	Message string // what is true from now on
	Attrs   []slog.Attr
}

// subject is something that changes.
type subject struct {
	budget  logbudget.Budget
	changed time.Time // last

	changes int   // without an entry
	last    Entry // the last of them
}

// Log writes entries in its own goroutine, in the order of the changes of a subject. Record is
// safe for concurrent use.
type Log struct {
	log  *slog.Logger
	wake chan struct{}

	mu       sync.Mutex // not held during I/O
	subjects map[string]*subject
	queue    []Entry // to be written; the budgets bound it
}

// New returns a log. Run or Flush writes its entries.
func New(log *slog.Logger) *Log {
	return &Log{log: log, wake: make(chan struct{}, 1), subjects: make(map[string]*subject)}
}

// Record takes a change. It never blocks.
func (l *Log) Record(e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.subjects[e.Subject]
	if s == nil {
		s = &subject{budget: logbudget.New(burst, refill)}
		l.subjects[e.Subject] = s
	}
	s.changed = time.Now()
	// A change never gets an entry before an earlier change of its subject.
	if s.changes > 0 || !s.budget.Spend(s.changed) {
		s.changes++
		s.last = e
		return
	}
	l.queue = append(l.queue, e)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run writes entries until ctx ends.
func (l *Log) Run(ctx context.Context) error {
	tick := time.NewTicker(summaryInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
		case <-tick.C:
			l.summarize()
		}
		l.write()
	}
}

// Flush writes all entries. It is called after Run returned.
func (l *Log) Flush() {
	l.summarize()
	l.write()
}

// summarize queues the last change of each subject whose changes got no entry, with their
// number. It drops subjects that did not change for a while: VIPs can be removed from the
// configuration.
func (l *Log) summarize() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(l.subjects)) {
		s, e := l.subjects[name], l.subjects[name].last
		switch {
		case s.changes > 1:
			e.Message = fmt.Sprintf("%s (the last of %d changes)", e.Message, s.changes)
			e.Attrs = append(slices.Clone(e.Attrs), slog.Int("count", s.changes))
		case s.changes == 0:
			if time.Since(s.changed) > subjectLifetime {
				delete(l.subjects, name)
			}
			continue
		}
		l.queue = append(l.queue, e)
		s.budget.Spend(time.Now())
		s.changes, s.last = 0, Entry{}
	}
}

func (l *Log) write() {
	l.mu.Lock()
	entries := l.queue
	l.queue = nil
	l.mu.Unlock()
	for _, e := range entries {
		l.log.LogAttrs(context.Background(), e.Level, e.Message, e.Attrs...)
	}
}
