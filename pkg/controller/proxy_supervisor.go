// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// proxySilenceLimit is how long a gate may be silent: one that is well is heard
	// every 3 s at the least, and this end well before systemd's watchdog.
	proxySilenceLimit = 8 * time.Second
	supervisorTick    = time.Second

	// lastMessagesTimeout is how long the messages of a gate that has ended are read.
	lastMessagesTimeout = 100 * time.Millisecond

	// A gate that lives for stableLifetime may be followed by another at once; those
	// that do not are followed ever later.
	stableLifetime  = time.Second
	minProxyBackoff = 50 * time.Millisecond
	maxProxyBackoff = 5 * time.Second

	// So many ends within that time are more than an accident.
	frequentExits = 3
	exitWindow    = time.Minute
)

// proxySupervisor keeps a gate at work: when it ends, or is silent for too long, another
// takes over the listening sockets.
type proxySupervisor struct {
	log          *slog.Logger
	output       *child.Output // of the gates
	proxy        *proxyManager
	stats        *statsRecorder
	tracker      *report.Tracker
	liveness     *livenessCheck
	heartbeat    func()
	silenceLimit time.Duration // after which a gate is replaced
	done         chan struct{} // closed when no gate is needed any more
	exits        []time.Time   // of gates, within the last exitWindow
}

// run attends the gate and its successors until finish is closed; none is left
// then.
func (w *proxySupervisor) run(g *proxyProcess) {
	backOff := minProxyBackoff
	for {
		w.proxy.attach(g)
		w.liveness.setProcess(g)
		begin := time.Now()
		why := w.supervise(g)
		w.liveness.setProcess(nil)
		w.proxy.detach()
		if why == "" {
			return
		}
		if time.Since(begin) >= stableLifetime {
			backOff = minProxyBackoff
		}
		w.recordExit(why, time.Now())
		w.log.Error(fmt.Sprintf("the gate (process %d) %s: challenges that it had accepted are lost; another takes over its ports", g.PID(), why),
			slog.String("event", "gate"))
		for g = w.startNext(&backOff, begin); g == nil; g = w.startNext(&backOff, time.Now()) {
			if w.isDone() {
				return
			}
		}
	}
}

// recordExit takes note of the end of a gate. That clients are not answered is a state
// of the service until a successor is well: for stableLifetime, or, when gates end again
// and again, for as long as the ends are counted.
func (w *proxySupervisor) recordExit(why string, now time.Time) {
	w.exits = slices.DeleteFunc(w.exits, func(end time.Time) bool { return now.Sub(end) > exitWindow })
	w.exits = append(w.exits, now)
	again := ""
	if n := len(w.exits); n > 1 {
		again = fmt.Sprintf(", and is the %d. within a minute to end", n)
	}
	w.tracker.SetProxyFailure(fmt.Sprintf("the gate, which answers the clients, %s%s; clients wait until another does: see the journal", why, again), now)
}

// stablePeriod is how long a gate has to live for the service to be well again.
func (w *proxySupervisor) stablePeriod() time.Duration {
	if len(w.exits) >= frequentExits {
		return exitWindow
	}
	return stableLifetime
}

// awaitNewProxy starts a gate: at once if the last one has lived for a while. It
// returns nil when that fails or nobody needs one any more.
func (w *proxySupervisor) startNext(backOff *time.Duration, begin time.Time) *proxyProcess {
	if time.Since(begin) < stableLifetime && *backOff > minProxyBackoff {
		w.waitBackoff(*backOff)
	}
	*backOff = min(2**backOff, maxProxyBackoff)
	if w.isDone() {
		return nil
	}
	g, err := startProxy(w.output)
	if err != nil {
		w.log.Error("there is no gate; trying again", slog.String("event", "gate"), slog.Any("error", err))
		w.tracker.SetProxyFailure(fmt.Sprintf("there is no gate, which answers the clients: %v; trying again", err), time.Now())
		return nil
	}
	return g
}

func (w *proxySupervisor) isDone() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

func (w *proxySupervisor) waitBackoff(patience time.Duration) {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		w.heartbeat()
		select {
		case <-w.done:
			return
		case <-time.After(min(supervisorTick, time.Until(end))):
		}
	}
}

// setProcess listens to the gate until it ends, and returns why it did; "" when it
// was to.
func (w *proxySupervisor) supervise(g *proxyProcess) (why string) {
	words := make(chan protocol.Event)
	deaf := make(chan struct{})
	defer close(deaf)
	var broken error
	go func() {
		defer close(words)
		for {
			var word protocol.Event
			if err := g.Receive(&word); err != nil {
				broken = err
				return
			}
			select {
			case words <- word:
			case <-deaf:
				return
			}
		}
	}()
	defer g.KillAndClose()
	tick := time.NewTicker(supervisorTick)
	defer tick.Stop()
	heard := time.Now()
	ended := g.Done()
	var late <-chan time.Time
	well := time.AfterFunc(w.stablePeriod(), func() { w.tracker.SetProxyFailure("", time.Now()) })
	defer well.Stop()
	for {
		w.heartbeat()
		select {
		case <-w.done:
			return ""
		case <-ended:
			// Its last messages are in the pipe, whose end a copy of it might hold open.
			ended, late = nil, time.After(lastMessagesTimeout)
		case <-late:
			return exitReason(g.Process, nil)
		case word, more := <-words:
			if !more {
				return exitReason(g.Process, broken)
			}
			heard = time.Now()
			if err := w.handleEvent(word); err != nil {
				return fmt.Sprintf("is not to be trusted (%v)", err)
			}
		case r := <-w.liveness.replacements:
			if r.process == g {
				return r.reason
			}
		case <-tick.C:
			if time.Since(heard) > w.silenceLimit {
				return fmt.Sprintf("has been silent for %v", w.silenceLimit)
			}
		}
	}
}

// exitReason says why the connection to a child has ended: because the process has,
// as a rule.
func exitReason(p *child.Process, broken error) string {
	select {
	case <-p.Done():
		if err := p.Err(); err != nil {
			return fmt.Sprintf("has ended (%v)", err)
		}
		return "has ended"
	case <-time.After(supervisorTick):
		return fmt.Sprintf("cannot be heard (%v)", broken)
	}
}

// receive believes what the gate says, as far as it can be believed.
func (w *proxySupervisor) handleEvent(word protocol.Event) error {
	switch {
	case word.Stopped != nil:
		w.proxy.recordStopped(word.Stopped.Port)
	case word.Drained != nil:
		if err := word.Drained.Validate(); err != nil {
			return err
		}
		w.proxy.mu.Lock()
		w.proxy.recordDrained(drainMessage(word.Drained.Cut))
		w.proxy.mu.Unlock()
	case word.IngressProbed != nil:
		if err := word.IngressProbed.Validate(); err != nil {
			return err
		}
		w.proxy.mu.Lock()
		w.proxy.recordProbed(word.IngressProbed.Results)
		w.proxy.mu.Unlock()
	case word.Stats != nil:
		if err := word.Stats.Validate(); err != nil {
			return err
		}
		w.stats.record(word.Stats)
	case word.Flushed != nil:
		w.proxy.mu.Lock()
		w.proxy.recordFlushed()
		w.proxy.mu.Unlock()
	}
	return nil
}
