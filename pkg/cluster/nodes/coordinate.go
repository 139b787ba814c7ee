// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// The longest times that nodes wait for others when all checks run.
const (
	tracingTimeout = 2 * time.Second // until the holders follow packets
	testTimeout    = 5 * time.Second // until the other nodes are finished
)

// Limits of the events of a node, which is not trusted.
const (
	maxEvents = 3 // started, following packets, finished
	maxEvent  = 1 << 10
	maxHolds  = 16
)

// RunCoordinated is RunOnEach for `http01-proxyd check`: the nodes send their test requests
// while those that hold a VIP follow packets. It calls started when the check runs, or failed,
// on all nodes, with the time until then. Where the check does not take part, it runs again,
// alone. Each node gets one timeout for the start, and one for the rest. If there are more
// nodes than debug pods at a time, the checks are not coordinated.
func (o OC) RunCoordinated(
	ctx context.Context, nodes []Node, timeout time.Duration, started func(time.Duration), command ...string,
) []Output {
	if len(nodes) > maxParallel {
		return o.RunOnEach(ctx, nodes, timeout, command...)
	}
	begin := time.Now()
	all := make([]Output, len(nodes))
	events := make(chan event, maxEvents*len(nodes)) // no node waits
	var r round
	var running sync.WaitGroup
	for i, n := range nodes {
		bounded, cancel := context.WithCancelCause(ctx)
		m := &member{deadline: time.AfterFunc(timeout, func() { cancel(context.DeadlineExceeded) })}
		r.members = append(r.members, m)
		running.Go(func() {
			defer cancel(nil)
			out, done := o.runMember(bounded, n, timeout, func(e event) {
				e.from = m
				events <- e
			}, command)
			events <- event{from: m}
			if all[i] = out; !done && ctx.Err() == nil {
				all[i] = o.runOn(ctx, n, timeout, command)
			}
		})
	}
	for r.phase < ending {
		expired := time.After([]time.Duration{starting: timeout, preparing: tracingTimeout, testing: testTimeout}[r.phase])
		for waiting := true; waiting && !r.isComplete(); {
			select {
			case e := <-events:
				r.record(e)
			case <-expired:
				waiting = false
			}
		}
		if r.phase == starting {
			started(time.Since(begin))
		}
		r.advance(timeout)
	}
	running.Wait()
	return all
}

// runMember runs a check on a node until ctx ends. It is not done if the check must run
// again, alone: an earlier version does not know the flag, and an oc that cannot attach to
// the pod prints nothing. oc debug passes standard input on for a command only with
// --tty=false (openshift/oc, pkg/cli/debug/debug.go); -T would do, but may not in the future.
func (o OC) runMember(
	ctx context.Context, n Node, timeout time.Duration, send func(event), command []string,
) (out Output, done bool) {
	if n.Absent != "" {
		return absent(n), true
	}
	stdin, lines, err := os.Pipe()
	if err != nil {
		return out, false
	}
	defer stdin.Close()
	defer lines.Close()
	if _, err := io.WriteString(lines, report.CheckBegin+"\n"); err != nil {
		return out, false
	}
	seen := map[string]bool{}
	reader := eventReader{take: func(e report.CheckEvent) {
		if !seen[e.Kind] {
			seen[e.Kind] = true
			send(event{CheckEvent: e, stdin: lines})
		}
	}}
	args := slices.Concat([]string{"--quiet", "node/" + n.Name, "--tty=false", "--", "chroot", "/host"}, command,
		[]string{"--coordinated=" + timeout.String()})
	c := o.runUntil(ctx, timeout, stdin, &reader, limitOf(command).bytes, "debug", args...)
	out = c.output(ctx, n, command)
	var document struct{ Kind string }
	_ = json.Unmarshal(out.Document, &document) // a result that is not one is reported by its reader
	done = seen[report.CheckStarted] || c.timeout > 0 || c.tooLong || out.Document != nil && document.Kind != "Error"
	return out, done
}

// event is an event of a node. Without a kind it is the end of its check.
type event struct {
	report.CheckEvent

	from  *member
	stdin io.Writer // of the check
}

// member is a node that takes part.
type member struct {
	deadline                *time.Timer // ends oc
	stdin                   io.Writer   // of a check that started
	holds                   []netip.Addr
	started, tracing, ended bool
}

// round is the state of a coordinated check. One goroutine owns it.
type round struct {
	members []*member
	phase   phase
}

type phase int

// The phases of a coordinated check.
const (
	starting  phase = iota // the debug pods start
	preparing              // the nodes that hold a VIP create their tables
	testing                // the nodes send test requests
	ending                 // the nodes that hold a VIP evaluate what arrived
)

func (r *round) record(e event) {
	m := e.from
	switch e.Kind {
	case report.CheckStarted:
		if r.phase == starting {
			m.deadline.Stop() // the others may need longer
		}
		m.started, m.stdin, m.holds = true, e.stdin, e.Holds
	case report.CheckTracing:
		m.tracing = true
	default:
		m.ended = true
	}
}

// isComplete reports whether no node is missing for the next phase.
func (r *round) isComplete() bool {
	held := map[netip.Addr]bool{}
	for _, m := range r.members {
		for _, vip := range m.holds {
			held[vip] = true
		}
	}
	return !slices.ContainsFunc(r.members, func(m *member) bool {
		switch {
		case m.ended:
			return false
		case r.phase == starting:
			return !m.started
		case r.phase == preparing:
			return len(m.holds) > 0 && !m.tracing
		default: // a node that holds one of two VIPs tests the other one
			return len(m.holds) < len(held)
		}
	})
}

// advance begins the next phase. The members that started get this time for the rest.
func (r *round) advance(timeout time.Duration) {
	line := []string{starting: report.CheckTrace, preparing: report.CheckTest, testing: report.CheckEnd}[r.phase]
	for _, m := range r.members {
		if !m.started || m.ended {
			continue
		}
		if r.phase == starting {
			m.deadline.Reset(timeout)
		}
		if r.phase == preparing || len(m.holds) > 0 {
			_, _ = io.WriteString(m.stdin, line+"\n") // a check that ended reports that otherwise
		}
	}
	r.phase++
}

// eventReader finds the events in an output. A line that is too long for one is ignored.
type eventReader struct {
	take func(report.CheckEvent)
	line []byte
}

func (r *eventReader) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		r.line = append(r.line, line[:min(len(line), maxEvent+1-len(r.line))]...)
		if line[len(line)-1] != '\n' {
			break
		}
		if e, is := parseEvent(r.line); is {
			r.take(e)
		}
		r.line = r.line[:0]
	}
	return len(p), nil
}

// parseEvent reads an event. A node holds at most maxHolds VIPs, each once.
func parseEvent(line []byte) (e report.CheckEvent, is bool) {
	if len(line) > maxEvent || json.Unmarshal(line, &e) != nil {
		return e, false
	}
	if e.Kind != report.CheckStarted && e.Kind != report.CheckTracing {
		return e, false
	}
	slices.SortFunc(e.Holds, netip.Addr.Compare)
	e.Holds = slices.Compact(e.Holds)
	return e, len(e.Holds) <= maxHolds
}
