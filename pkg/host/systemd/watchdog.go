// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"fmt"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Watchdog feeds systemd's watchdog from the loops that do the work. It has no
// timer of its own: one message goes out when every source has given a beat
// since the last one, so a loop that hangs stops the messages and systemd ends
// the process after WatchdogSec.
type Watchdog struct {
	interval time.Duration
	send     func()

	mu      sync.Mutex
	pending map[*source]bool // true: has not given its beat yet
	last    time.Time
}

// messagesPerInterval bounds how many go out in an interval: a busy loop gives many beats,
// and more help nobody.
const messagesPerInterval = 8

type source struct{ name string }

// NewWatchdog reads WATCHDOG_USEC and WATCHDOG_PID. Without them, beats go
// nowhere. failed gets the first of equal errors of sending.
func NewWatchdog(failed func(error)) (*Watchdog, error) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return nil, fmt.Errorf("read systemd's watchdog setting: %w", err)
	}
	last := ""
	return newWatchdog(interval, func() {
		text := ""
		if err := send(daemon.SdNotifyWatchdog); err != nil {
			if text = err.Error(); text != last {
				failed(err)
			}
		}
		last = text
	}), nil
}

// NewHeartbeat is for a process that somebody else than systemd watches over: send
// is called as systemd would be told, at the most once in every.
func NewHeartbeat(every time.Duration, send func()) *Watchdog {
	return newWatchdog(messagesPerInterval*every, send)
}

func newWatchdog(interval time.Duration, send func()) *Watchdog {
	return &Watchdog{interval: interval, send: send, pending: make(map[*source]bool)}
}

// Source adds a loop whose beats count from now on. It has to call beat at
// least every quarter of WatchdogSec and done when it ends as planned.
func (w *Watchdog) Source(name string) (beat, done func()) {
	s := &source{name}
	w.mu.Lock()
	w.pending[s] = true
	w.mu.Unlock()
	return func() { w.recordBeat(s) }, func() { w.removeSource(s) }
}

func (w *Watchdog) recordBeat(s *source) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, counts := w.pending[s]; !counts || w.interval == 0 {
		return
	}
	w.pending[s] = false
	w.sendWhenComplete()
}

func (w *Watchdog) removeSource(s *source) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, s)
	if w.interval > 0 && len(w.pending) > 0 {
		w.sendWhenComplete()
	}
}

// sendWhenComplete sends when nobody is missing.
func (w *Watchdog) sendWhenComplete() {
	for _, missing := range w.pending {
		if missing {
			return
		}
	}
	if now := time.Now(); now.Sub(w.last) >= w.interval/messagesPerInterval {
		w.last = now
		w.send()
		for s := range w.pending {
			w.pending[s] = true
		}
	}
}
