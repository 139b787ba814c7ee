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
	queueLength = 256
	flushTime   = time.Second
)

// entry is one journal entry on its way.
type entry struct {
	message  string
	priority journal.Priority
	fields   map[string]string
}

// queue stands between the service and journald, whose socket blocks its
// writers when it does not keep up (net.unix.max_dgram_qlen): a journal that
// hangs must not stop a challenge, or the loop that feeds the watchdog. What
// does not fit is dropped, counted, and owned up to.
type queue struct {
	send    func(message string, priority journal.Priority, fields map[string]string) error
	entries chan entry
	lost    atomic.Uint64
	stop    chan struct{}
	stopped chan struct{}
}

func newQueue(send func(string, journal.Priority, map[string]string) error) *queue {
	q := &queue{
		send: send, entries: make(chan entry, queueLength),
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	go q.run()
	return q
}

// put never blocks.
func (q *queue) put(message string, priority journal.Priority, fields map[string]string) error {
	select {
	case q.entries <- entry{message, priority, fields}:
	default:
		q.lost.Add(1)
	}
	return nil
}

func (q *queue) run() {
	defer close(q.stopped)
	for {
		select {
		case e := <-q.entries:
			q.pass(e)
			continue
		default:
		}
		select {
		case e := <-q.entries:
			q.pass(e)
		case <-q.stop:
			if len(q.entries) == 0 {
				return
			}
		}
	}
}

func (q *queue) pass(e entry) {
	// There is nowhere to complain to.
	_ = q.send(e.message, e.priority, e.fields)
	if n := q.lost.Swap(0); n > 0 {
		_ = q.send(fmt.Sprintf("%d log entries were lost: the journal did not take them in time", n),
			journal.PriWarning, map[string]string{"EVENT": "log-lost", "MESSAGE_ID": messageid.MessageID("log-lost")})
	}
}

// flush waits, within flushTime, until what was put has been passed on. The
// queue takes nothing afterwards.
func (q *queue) flush() {
	close(q.stop)
	timer := time.NewTimer(flushTime)
	defer timer.Stop()
	select {
	case <-q.stopped:
	case <-timer.C:
	}
}
