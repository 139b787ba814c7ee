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

// journalEntry is one journal entry on its way.
type journalEntry struct {
	message  string
	priority journal.Priority
	fields   map[string]string
}

// journalQueue stands between the service and journald, whose socket blocks its
// writers when it does not keep up (net.unix.max_dgram_qlen): a journal that
// hangs must not stop a challenge, or the loop that feeds the watchdog. What
// does not fit is dropped, counted, and owned up to.
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
			continue
		default:
		}
		select {
		case e := <-q.entries:
			q.sendEntry(e)
		case <-q.stop:
			if len(q.entries) == 0 {
				return
			}
		}
	}
}

func (q *journalQueue) sendEntry(e journalEntry) {
	// There is nowhere to complain to.
	_ = q.send(e.message, e.priority, e.fields)
	if n := q.dropped.Swap(0); n > 0 {
		_ = q.send(fmt.Sprintf("%d log entries were lost: the journal did not take them in time", n),
			journal.PriWarning, map[string]string{"EVENT": "log-lost", "MESSAGE_ID": messageid.MessageID("log-lost")})
	}
}

// flush waits, within flushTimeout, until what was put has been passed on. The
// queue takes nothing afterwards.
func (q *journalQueue) flush() {
	close(q.stop)
	timer := time.NewTimer(flushTimeout)
	defer timer.Stop()
	select {
	case <-q.stopped:
	case <-timer.C:
	}
}
