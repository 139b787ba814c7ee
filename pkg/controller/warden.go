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
	// gateSilence is how long a gate may be silent: one that is well is heard
	// every 3 s at the least, and this end well before systemd's watchdog.
	gateSilence = 8 * time.Second
	wardenBeat  = time.Second

	// lastWords is how long the messages of a gate that has ended are read.
	lastWords = 100 * time.Millisecond

	// A gate that lives for longLife may be followed by another at once; those
	// that do not are followed ever later.
	longLife       = time.Second
	minGateBackOff = 50 * time.Millisecond
	maxGateBackOff = 5 * time.Second

	// So many ends within that time are more than an accident.
	manyEnds  = 3
	countEnds = time.Minute
)

// warden keeps a gate at work: when it ends, or is silent for too long, another
// takes over the listening sockets.
type warden struct {
	log      *slog.Logger
	output   *child.Output // of the gates
	door     *door
	recorder *recorder
	board    *report.Board
	serving  *servingCheck
	beat     func()
	silence  time.Duration // after which a gate is replaced
	finish   chan struct{} // closed when no gate is needed any more
	ends     []time.Time   // of gates, within the last countEnds
}

// run attends the gate and its successors until finish is closed; none is left
// then.
func (w *warden) run(g *gateProcess) {
	backOff := minGateBackOff
	for {
		w.door.employ(g)
		w.serving.attend(g)
		begin := time.Now()
		why := w.attend(g)
		w.serving.attend(nil)
		w.door.dismiss()
		if why == "" {
			return
		}
		if time.Since(begin) >= longLife {
			backOff = minGateBackOff
		}
		w.mourn(why, time.Now())
		w.log.Error(fmt.Sprintf("the gate (process %d) %s: challenges that it had accepted are lost; another takes over its ports", g.PID(), why),
			slog.String("event", "gate"))
		for g = w.another(&backOff, begin); g == nil; g = w.another(&backOff, time.Now()) {
			if w.finished() {
				return
			}
		}
	}
}

// mourn takes note of the end of a gate. That clients are not answered is a state
// of the service until a successor is well: for longLife, or, when gates end again
// and again, for as long as the ends are counted.
func (w *warden) mourn(why string, now time.Time) {
	w.ends = slices.DeleteFunc(w.ends, func(end time.Time) bool { return now.Sub(end) > countEnds })
	w.ends = append(w.ends, now)
	again := ""
	if n := len(w.ends); n > 1 {
		again = fmt.Sprintf(", and is the %d. within a minute to end", n)
	}
	w.board.SetGate(fmt.Sprintf("the gate, which answers the clients, %s%s; clients wait until another does: see the journal", why, again), now)
}

// calm is how long a gate has to live for the service to be well again.
func (w *warden) calm() time.Duration {
	if len(w.ends) >= manyEnds {
		return countEnds
	}
	return longLife
}

// another starts a gate: at once if the last one has lived for a while. It
// returns nil when that fails or nobody needs one any more.
func (w *warden) another(backOff *time.Duration, begin time.Time) *gateProcess {
	if time.Since(begin) < longLife && *backOff > minGateBackOff {
		w.wait(*backOff)
	}
	*backOff = min(2**backOff, maxGateBackOff)
	if w.finished() {
		return nil
	}
	g, err := startGate(w.output)
	if err != nil {
		w.log.Error("there is no gate; trying again", slog.String("event", "gate"), slog.Any("error", err))
		w.board.SetGate(fmt.Sprintf("there is no gate, which answers the clients: %v; trying again", err), time.Now())
		return nil
	}
	return g
}

func (w *warden) finished() bool {
	select {
	case <-w.finish:
		return true
	default:
		return false
	}
}

func (w *warden) wait(patience time.Duration) {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		w.beat()
		select {
		case <-w.finish:
			return
		case <-time.After(min(wardenBeat, time.Until(end))):
		}
	}
}

// attend listens to the gate until it ends, and returns why it did; "" when it
// was to.
func (w *warden) attend(g *gateProcess) (why string) {
	words := make(chan protocol.Word)
	deaf := make(chan struct{})
	defer close(deaf)
	var broken error
	go func() {
		defer close(words)
		for {
			word, err := g.ReceiveWord()
			if err != nil {
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
	defer g.End()
	tick := time.NewTicker(wardenBeat)
	defer tick.Stop()
	heard := time.Now()
	ended := g.Ended()
	var late <-chan time.Time
	well := time.AfterFunc(w.calm(), func() { w.board.SetGate("", time.Now()) })
	defer well.Stop()
	for {
		w.beat()
		select {
		case <-w.finish:
			return ""
		case <-ended:
			// Its last messages are in the pipe, whose end a copy of it might hold open.
			ended, late = nil, time.After(lastWords)
		case <-late:
			return explain(g.Process, nil)
		case word, more := <-words:
			if !more {
				return explain(g.Process, broken)
			}
			heard = time.Now()
			if err := w.take(word); err != nil {
				return fmt.Sprintf("is not to be trusted (%v)", err)
			}
		case r := <-w.serving.replace:
			if r.gate == g {
				return r.why
			}
		case <-tick.C:
			if time.Since(heard) > w.silence {
				return fmt.Sprintf("has been silent for %v", w.silence)
			}
		}
	}
}

// explain says why the connection to a child has ended: because the process has,
// as a rule.
func explain(p *child.Process, broken error) string {
	select {
	case <-p.Ended():
		if err := p.Err(); err != nil {
			return fmt.Sprintf("has ended (%v)", err)
		}
		return "has ended"
	case <-time.After(wardenBeat):
		return fmt.Sprintf("cannot be heard (%v)", broken)
	}
}

// take believes what the gate says, as far as it can be believed.
func (w *warden) take(word protocol.Word) error {
	switch {
	case word.Gone != nil:
		w.door.hasGone(word.Gone.Port)
	case word.Drained != nil:
		if err := word.Drained.Check(); err != nil {
			return err
		}
		w.door.mu.Lock()
		w.door.hasDrained(cutOff(word.Drained.Cut))
		w.door.mu.Unlock()
	case word.Probed != nil:
		if err := word.Probed.Check(); err != nil {
			return err
		}
		w.door.mu.Lock()
		w.door.hasProbed(word.Probed.Found)
		w.door.mu.Unlock()
	case word.News != nil:
		if err := word.News.Check(); err != nil {
			return err
		}
		w.recorder.news(word.News)
	case word.Told != nil:
		w.door.mu.Lock()
		w.door.hasTold()
		w.door.mu.Unlock()
	}
	return nil
}
