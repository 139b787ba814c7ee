// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/journal"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/messageid"
)

// NewLogger returns a logger that writes to the journal if standard error is connected to it,
// with each attribute as a journal field. Otherwise it writes text to standard error. Logging
// to the journal never blocks. flush must be called once, at the end: it waits for the queued
// entries.
func NewLogger() (log *slog.Logger, flush func()) {
	if journaled, err := journal.StderrIsJournalStream(); err == nil && journaled && journal.Enabled() {
		q := newJournalQueue(journal.Send)
		return slog.New(&journalHandler{send: q.enqueue}), q.flush
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil)), func() {}
}

// journalHandler sends a record as a journal entry. The message becomes MESSAGE, the level
// PRIORITY, and each attribute a field with its key in upper case (EVENT, VIP, CLIENT). An
// event also gets a MESSAGE_ID. An attribute named error is also appended to the message,
// because journalctl does not print fields. The journal adds the time itself.
type journalHandler struct {
	send  func(message string, priority journal.Priority, fields map[string]string) error
	attrs []slog.Attr
}

func (h *journalHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

func (h *journalHandler) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	fields := make(map[string]string, len(h.attrs)+r.NumAttrs())
	for _, a := range h.attrs {
		addField(fields, a)
	}
	r.Attrs(func(a slog.Attr) bool {
		addField(fields, a)
		if a.Key == "event" {
			if id := messageid.MessageID(a.Value.String()); id != "" {
				fields["MESSAGE_ID"] = id
			}
		}
		if a.Key == "error" {
			text += ": " + a.Value.Resolve().String()
		}
		return true
	})
	return h.send(text, priority(r.Level), fields)
}

func (h *journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.attrs = slices.Concat(h.attrs, attrs)
	return &next
}

// WithGroup returns the handler: no record uses groups.
func (h *journalHandler) WithGroup(string) slog.Handler { return h }

// addField adds an attribute. A key in snake case becomes the name of a journal field in capital letters.
func addField(fields map[string]string, a slog.Attr) {
	fields[strings.ToUpper(a.Key)] = a.Value.Resolve().String()
}

func priority(level slog.Level) journal.Priority {
	switch {
	case level >= slog.LevelError:
		return journal.PriErr
	case level >= slog.LevelWarn:
		return journal.PriWarning
	default:
		return journal.PriInfo
	}
}

const (
	queueLength  = 256
	flushTimeout = time.Second
)

type journalEntry struct {
	message  string
	priority journal.Priority
	fields   map[string]string
}

// journalQueue decouples the service from journald. journald's socket blocks its writers if
// journald is too slow (net.unix.max_dgram_qlen). A hanging journal must not delay a
// challenge or the loop that feeds the watchdog. Entries that do not fit are dropped, counted
// and reported.
type journalQueue struct {
	send    func(message string, priority journal.Priority, fields map[string]string) error
	entries chan journalEntry
	dropped atomic.Uint64
	stop    chan struct{}
	stopped chan struct{}
}

func newJournalQueue(send func(string, journal.Priority, map[string]string) error) *journalQueue {
	q := &journalQueue{
		send: send, entries: make(chan journalEntry, queueLength),
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	go q.run()
	return q
}

// enqueue never blocks.
func (q *journalQueue) enqueue(message string, priority journal.Priority, fields map[string]string) error {
	select {
	case q.entries <- journalEntry{message, priority, fields}:
	default:
		q.dropped.Add(1)
	}
	return nil
}

func (q *journalQueue) run() {
	defer close(q.stopped)
	for {
		select {
		case e := <-q.entries:
			q.sendEntry(e)
		case <-q.stop:
			for len(q.entries) > 0 {
				q.sendEntry(<-q.entries)
			}
			return
		}
	}
}

func (q *journalQueue) sendEntry(e journalEntry) {
	// An error cannot be reported anywhere.
	_ = q.send(e.message, e.priority, e.fields)
	if n := q.dropped.Swap(0); n > 0 {
		_ = q.send(fmt.Sprintf("%d log entries were dropped: the journal was too slow", n),
			journal.PriWarning, map[string]string{"EVENT": "log-lost", "MESSAGE_ID": messageid.MessageID("log-lost")})
	}
}

// flush waits until the queued entries were sent, for at most flushTimeout. The queue
// accepts no entries afterwards.
func (q *journalQueue) flush() {
	close(q.stop)
	timer := time.NewTimer(flushTimeout)
	defer timer.Stop()
	select {
	case <-q.stopped:
	case <-timer.C:
	}
}
