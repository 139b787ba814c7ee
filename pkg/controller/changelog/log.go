// SPDX-License-Identifier: Apache-2.0

package changelog

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Log writes entries in a goroutine of its own, in the order of their changes. Record is
// safe for concurrent use.
type Log struct {
	log  *slog.Logger
	wake chan struct{}

	mu      sync.Mutex // not held during I/O
	limiter limiter
	queue   []Entry // to be written; the budgets bound it
}

// New returns a log. Run or Flush writes its entries.
func New(log *slog.Logger) *Log {
	return &Log{log: log, wake: make(chan struct{}, 1), limiter: newLimiter()}
}

// Record takes a change. It never blocks.
func (l *Log) Record(e Entry) {
	l.mu.Lock()
	if l.limiter.record(e, time.Now()) {
		l.queue = append(l.queue, e)
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run writes entries until ctx ends.
func (l *Log) Run(ctx context.Context) error {
	timer := time.NewTimer(summaryInterval)
	defer timer.Stop()
	for {
		l.write(false)
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
		case <-timer.C:
		}
		timer.Reset(l.wait())
	}
}

// Flush writes all entries. It is called after Run has returned.
func (l *Log) Flush() { l.write(true) }

// wait returns the time until the next summary is due.
func (l *Log) wait() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if due := l.limiter.due(); !due.IsZero() {
		return time.Until(due)
	}
	return summaryInterval
}

// write writes the entries in the queue, and the summaries that are due.
func (l *Log) write(all bool) {
	l.mu.Lock()
	entries := slices.Concat(l.queue, l.limiter.summarize(time.Now(), all))
	l.queue = nil
	l.mu.Unlock()
	for _, e := range entries {
		l.log.LogAttrs(context.Background(), e.Level, e.Message, e.Attrs...)
	}
}
