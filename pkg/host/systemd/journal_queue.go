// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/journal"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/messageid"
)

const (
	queueLength  = 256
	flushTimeout = time.Second
)

// journalEntry is a queued journal entry.
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

// flush waits until the queued entries have been sent, for at most flushTimeout. The queue
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
