// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/mailbox"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
)

const (
	// SilenceLimit is how long a proxy process may send nothing. A working one sends
	// a heartbeat every 5 s. The limit is well below systemd's watchdog.
	SilenceLimit = 12 * time.Second
	// stallThreshold is the delay of a check which shows that this process itself did not run.
	stallThreshold = 2 * time.Second

	// exitTimeout is how long a process may take to exit after its connection ended.
	exitTimeout = time.Second
	// lastMessagesTimeout is how long the events of a process that exited are read.
	lastMessagesTimeout = 100 * time.Millisecond

	// A process that lived for stableLifetime is replaced immediately. After shorter
	// lives the delay doubles.
	stableLifetime  = time.Second
	minProxyBackoff = 100 * time.Millisecond
	maxProxyBackoff = 5 * time.Second

	// frequentExits within exitWindow keep the condition at ProxyUnavailable, although each
	// process is replaced.
	frequentExits = 3
	exitWindow    = time.Minute
)

// Supervisor owns the proxy process, its listening sockets and its settings: all
// fields below "owned by Run" belong to the goroutine of Run. Other goroutines send it
// commands and settings, and read its snapshots. When a process exits or stops answering,
// the next one takes over the listening sockets. checkTimeouts detects a process that sends
// nothing, not even heartbeats, or answers no commands. The liveness check requests the
// replacement of one that answers no requests.
type Supervisor struct {
	Dependencies

	commands chan func() // of other goroutines, called by Run
	settings *mailbox.Mailbox[Settings]
	stopped  chan struct{} // closed when Run returned

	// Snapshots.
	ports          atomic.Pointer[[]uint16] // of the open listening sockets
	serving        atomic.Pointer[Proxy]    // the process that answers clients, or nil
	servingChanged mailbox.Trigger
	applied        atomic.Uint64   // the generation of the last settings
	settingsSent   mailbox.Trigger // fires after a change of applied or serving
	Beats          mailbox.Trigger // fires with each heartbeat of the process

	// Owned by Run, as the listeners are:
	keep               bool // the listening sockets belong to the next service process
	current            Settings
	configured         bool   // the process received current, unless the ports are closed
	minGeneration      uint64 // older settings arrived after the start of a drain
	reducedConnections int    // the last logged reduction of limits.maxConnections
	closing            map[uint16]*closingPort
	reopened           map[uint16]int // closed ports that were opened again before the process reports it

	process *Proxy    // nil between two processes
	due     time.Time // of the next checkTimeouts
	started time.Time
	stable  <-chan time.Time // the process counts as working then
	restart <-chan time.Time
	backoff time.Duration
	exits   []time.Time // within the last exitWindow
}

// Dependencies are the functions and values that a Supervisor needs.
type Dependencies struct {
	Log          *slog.Logger
	Output       *child.Output         // standard error of the processes
	Record       func(*protocol.Stats) // takes the statistics of the processes; it must not block
	Tracker      *tracker.Tracker
	Causes       *Causes
	SetTargets   func(ingress []netip.Addr, port uint16) // takes the ingress addresses of the process
	Listeners    *Listeners
	Heartbeat    func()        // to systemd's watchdog
	SilenceLimit time.Duration // after which a process is replaced
	Instance     uint64        // ID of this service in the responses to test requests
}

// NewSupervisor returns a supervisor. It does nothing before Run.
func NewSupervisor(d Dependencies) *Supervisor {
	s := &Supervisor{
		Dependencies: d,
		commands:     make(chan func()), settings: mailbox.New[Settings](),
		stopped: make(chan struct{}), servingChanged: mailbox.NewTrigger(),
		settingsSent: mailbox.NewTrigger(), Beats: mailbox.NewTrigger(),
		closing: make(map[uint16]*closingPort), reopened: make(map[uint16]int),
	}
	s.publishPorts()
	return s
}

// Serving returns the process that answers clients, and a channel that signals its replacement.
func (s *Supervisor) Serving() (*Proxy, <-chan struct{}) {
	return s.serving.Load(), s.servingChanged
}

func (s *Supervisor) setServing(p *Proxy) {
	if s.serving.Swap(p) != p {
		s.servingChanged.Fire()
	}
	s.settingsSent.Fire()
}

// openPorts returns the ports of the open listening sockets.
func (s *Supervisor) openPorts() []uint16 { return *s.ports.Load() }

func (s *Supervisor) publishPorts() {
	ports := s.Listeners.Ports()
	s.ports.Store(&ports)
}

// PutSettings takes the settings of the process, in place of those that it has not received yet. It never
// blocks.
func (s *Supervisor) PutSettings(v Settings) { s.settings.Put(v) }

// Run supervises first and its successors until ctx ends. Then no process is left.
func (s *Supervisor) Run(ctx context.Context, first *Proxy) {
	defer close(s.stopped)
	defer s.detach()
	s.attach(first)
	check := time.NewTimer(s.SilenceLimit)
	defer check.Stop()
	for {
		s.Heartbeat()
		s.due = s.nextCheck(time.Now())
		check.Reset(time.Until(s.due))
		select {
		case <-ctx.Done():
			return
		case f := <-s.commands:
			f()
		case v := <-s.settings.Values:
			s.applySettings(v)
		case <-s.stable:
			s.Tracker.SetProxyFailure("", time.Now())
		case <-s.restart:
			s.restart = nil
			s.startNext()
		case <-check.C:
			// The channel has the time at which the check was due, which can be long ago.
			s.checkTimeouts(time.Now())
		}
	}
}

// nextCheck returns when the first timeout can be over.
func (s *Supervisor) nextCheck(now time.Time) time.Time {
	next := now.Add(s.SilenceLimit)
	if s.process != nil {
		next = s.process.lastEvent.Load().Add(s.SilenceLimit)
	}
	for _, c := range s.closing {
		if c.deadline.Before(next) {
			next = c.deadline
		}
	}
	return next
}

// checkTimeouts replaces a process that sends nothing or answers nothing, and closes the
// sockets of ports that a stuck process did not close in time.
func (s *Supervisor) checkTimeouts(now time.Time) {
	for port, c := range s.closing {
		if !now.Before(c.deadline) {
			s.closeSocket(port)
		}
	}
	stalled := now.Sub(s.due) > stallThreshold
	if s.process == nil {
		return
	}
	if stalled { // this process did not run (SIGSTOP, a paused machine): its events are still in the pipe
		s.process.recordEvent(now)
	}
	switch {
	case s.process.silence(now) >= s.SilenceLimit:
		s.replace(fmt.Sprintf("has sent nothing for %v", s.SilenceLimit))
	case !stalled && s.process.answersNothing():
		s.replace(fmt.Sprintf("has not answered %d commands", maxUnanswered))
	default:
	}
}

// attach makes a process the current one and sends it its settings.
func (s *Supervisor) attach(p *Proxy) {
	s.process, s.started = p, time.Now()
	p.recordEvent(s.started)
	go s.readEvents(p)
	go s.awaitExit(p)
	s.stable = time.After(s.stablePeriod())
	if s.current.CAs != nil {
		s.send(protocol.Command{CAs: s.current.CAs}, -1)
	}
	if s.configured {
		s.send(protocol.Command{Configure: s.configureCommand()}, -1)
		s.sendListeners()
		s.setServing(p)
	}
}

// readEvents handles the events of a process until they end; then the process is replaced. Only
// events about ports wait for the supervisor, whose system calls for processes and for the
// descriptor store can take seconds.
func (s *Supervisor) readEvents(p *Proxy) {
	for {
		var event protocol.Event
		if err := p.Receive(&event); err != nil { // the connection validated the others
			s.RequestReplacement(p, endReason(p.Process, err))
			return
		}
		p.recordEvent(time.Now())
		switch {
		case event.Stats != nil:
			s.Record(event.Stats)
		case event.Flushed != nil:
			p.recordFlushed()
		case event.VIPsTested != nil:
			p.tested.Put(event.VIPsTested.Results)
		case event.IngressProbed != nil:
			p.probed.Put(event.IngressProbed.Results)
		case event.Drained != nil:
			p.drained.Put(event.Drained.Cut)
		case event.Heartbeat != nil:
			s.Beats.Fire()
		case event.Stopped != nil:
			s.submit(func() {
				if s.process == p {
					s.recordStopped(event.Stopped.Port)
				}
			})
		}
	}
}

// awaitExit starts the replacement of a process that exited. The last events are still in the
// pipe. A copy of the process could hold it open.
func (s *Supervisor) awaitExit(p *Proxy) {
	<-p.Done()
	<-time.After(lastMessagesTimeout)
	s.RequestReplacement(p, exitReason(p.Process, nil))
}

// endReason returns why the events of a process ended: usually it exited. After an invalid
// event, or with commands that it does not read, it can still run.
func endReason(p *child.Process, err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.EPIPE) {
		return exitReason(p, err)
	}
	return fmt.Sprintf("lost its connection (%v)", err)
}

// detach ends the current process, if there is one, and everything that it was doing.
func (s *Supervisor) detach() {
	s.setServing(nil)
	if s.process == nil {
		return
	}
	s.process.KillAndClose()
	s.process, s.stable = nil, nil
	for port, c := range s.closing {
		if !c.queued {
			s.closeSocket(port)
		}
	}
	clear(s.reopened)
}

// replace ends the current process and schedules the start of the next one.
func (s *Supervisor) replace(reason string) {
	pid, lifetime := s.process.PID(), time.Since(s.started)
	s.recordExit(reason, time.Now()) // before the process is killed, which can take seconds
	s.detach()
	message := fmt.Sprintf("the proxy process %d %s: requests in flight are lost; "+
		"the next process takes over its ports", pid, reason)
	s.Log.Error(message, slog.String("event", "proxy"))
	s.scheduleStart(lifetime)
}

// scheduleStart starts the next process, after a delay if the last one lived briefly.
func (s *Supervisor) scheduleStart(lifetime time.Duration) {
	if lifetime >= stableLifetime {
		s.backoff = 0
	}
	s.restart = time.After(s.backoff)
	s.backoff = min(max(2*s.backoff, minProxyBackoff), maxProxyBackoff)
}

func (s *Supervisor) startNext() {
	p, err := StartProxy(s.Output)
	if err != nil {
		s.Log.Error("cannot start a proxy process; retrying", slog.String("event", "proxy"), slog.Any("error", err))
		s.Tracker.SetProxyFailure(fmt.Sprintf("cannot start the proxy process: %v; retrying", err), time.Now())
		s.scheduleStart(0)
		return
	}
	s.attach(p)
}

// recordExit sets the condition to ProxyUnavailable until a successor lives for stablePeriod.
func (s *Supervisor) recordExit(reason string, now time.Time) {
	s.exits = slices.DeleteFunc(s.exits, func(exit time.Time) bool { return now.Sub(exit) > exitWindow })
	s.exits = append(s.exits, now)
	count := ""
	if n := len(s.exits); n > 1 {
		count = fmt.Sprintf(" (exit %d within a minute)", n)
	}
	s.Tracker.SetProxyFailure(fmt.Sprintf("the proxy process %s%s; "+
		"connections are queued until the next process starts: see the journal", reason, count), now)
}

// stablePeriod is how long a process must live before the service counts as working.
func (s *Supervisor) stablePeriod() time.Duration {
	if len(s.exits) >= frequentExits {
		return exitWindow
	}
	return stableLifetime
}

// exitReason returns why the connection to a child process has ended. Usually the process
// exited, which can show a moment later.
func exitReason(p *child.Process, connErr error) string {
	select {
	case <-p.Done():
	case <-time.After(exitTimeout):
		return fmt.Sprintf("lost its connection (%v)", connErr)
	}
	if err := p.Err(); err != nil {
		return fmt.Sprintf("has exited (%v)", err)
	}
	return "has exited"
}
