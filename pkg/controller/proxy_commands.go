// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/mailbox"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	probing "github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// stopListeningTimeout is how long a working process takes to close a port.
	stopListeningTimeout = 3 * time.Second
	// queuedTimeout is how long the backlog of a port waits for a process with settings. A CA
	// gives a challenge 10 s.
	queuedTimeout = 10 * time.Second
	// drainTimeout bounds the wait for requests in flight when the ports close.
	drainTimeout = 5 * time.Second
	// flushTimeout is how long a working process takes to send its statistics.
	flushTimeout = 500 * time.Millisecond
)

// submit has the goroutine of run call f. It reports false after run has returned.
func (s *proxySupervisor) submit(f func()) bool {
	select {
	case s.commands <- f:
		return true
	case <-s.stopped:
		return false
	}
}

// query has the goroutine of run call f, and returns the reply that f sends. It reports false after
// run has returned.
func query[T any](s *proxySupervisor, f func(reply chan<- T)) (reply T, answered bool) {
	replies := make(chan T, 1)
	if s.submit(func() { f(replies) }) {
		select {
		case reply = <-replies:
			return reply, true
		case <-s.stopped:
		}
	}
	return reply, false
}

// closingPort is a port that the process still serves for a moment. Its socket is kept
// until the process has closed it: if the port is opened again meanwhile, the socket is.
type closingPort struct {
	deadline time.Time
	fd       int
	queued   bool // no process serves its backlog yet: see sendListeners
}

// openPort listens on a port beside any other.
func (s *proxySupervisor) openPort(port uint16) error {
	if closing := s.closing[port]; closing != nil {
		delete(s.closing, port)
		if !closing.queued {
			s.reopened[port]++
		}
		s.listeners.add(port, closing.fd)
		if s.configured && s.process != nil {
			s.sendListener(port)
		}
		s.publishPorts()
		if _, open := s.listeners.fds[port]; !open {
			return fmt.Errorf("replace the listening socket on port %d, which a previous proxy process has changed", port)
		}
		return nil
	}
	if _, open := s.listeners.fds[port]; open {
		return nil
	}
	fd, err := s.listeners.open(port)
	if err == nil && s.configured {
		s.send(protocol.Command{Listen: &protocol.Listen{Port: port}}, fd)
	}
	s.publishPorts()
	return err
}

// closeOthers closes every port but one. A client whose handshake was under way when the
// table changed still arrives at the old port: the process serves the old port for a moment.
// redirected means that the others have connections of redirected clients in their backlogs.
//
// It replies when openPorts no longer returns the others. They may still be open, because
// systemd's store can take seconds to close them.
func (s *proxySupervisor) closeOthers(port uint16, redirected bool, reply chan<- struct{}) {
	// An open that follows must not rely on a port that is being closed.
	left := slices.DeleteFunc(s.listeners.ports(), func(p uint16) bool { return p != port })
	s.ports.Store(&left)
	reply <- struct{}{}
	for _, other := range s.listeners.ports() {
		if other == port {
			continue
		}
		if redirected && (s.process == nil || !s.configured) {
			// Connections of the time before, such as that of a restart, are in its backlog.
			fd := s.listeners.release(other) // can take seconds
			s.closing[other] = &closingPort{deadline: time.Now().Add(queuedTimeout), fd: fd, queued: true}
			continue
		}
		if s.process == nil {
			s.listeners.close(other)
			continue
		}
		s.send(protocol.Command{StopListening: &protocol.StopListening{Port: other}}, -1)
		s.closing[other] = &closingPort{deadline: time.Now().Add(stopListeningTimeout), fd: s.listeners.release(other)}
	}
	s.publishPorts()
}

// recordStopped records that the process has closed a port. If the port was opened again
// after the command to close it, the process has the socket once more.
func (s *proxySupervisor) recordStopped(port uint16) {
	if s.reopened[port] > 0 {
		s.reopened[port]--
		return
	}
	s.closeSocket(port)
}

// closeSocket closes the socket of a closing port.
func (s *proxySupervisor) closeSocket(port uint16) {
	if c := s.closing[port]; c != nil {
		delete(s.closing, port)
		closeWithoutLinger(c.fd)
	}
}

// closeAllPorts closes every port.
func (s *proxySupervisor) closeAllPorts(reply chan<- struct{}) {
	s.configured = false
	s.setServing(nil)
	for port, closing := range s.closing {
		if closing.queued {
			s.closeSocket(port)
		}
	}
	s.closeOthers(0, false, reply) // also of a process that started during the drain
}

// drain has the process close every port and complete the requests in flight, within drainTimeout at
// the latest. What was cut off is logged. Settings up to the generation that arrive
// later are dropped: they would give the process its listening sockets again.
func (s *proxySupervisor) drain(generation uint64) {
	p, _ := query(s, func(reply chan<- *proxyProcess) { reply <- s.startDrain(generation) })
	if p == nil {
		return
	}
	message := ""
	select {
	case cut := <-p.drained.Values:
		if cut > 0 {
			message = fmt.Sprintf("%d connections were closed before their response was complete", cut)
		}
	case <-p.Done():
	case <-time.After(drainTimeout + time.Second): // the process applies it first
		message = "the proxy process does not answer"
	}
	if message != "" {
		s.log.Warn("requests in flight were cut off", slog.String("event", "drain"), slog.String("error", message))
	}
}

// startDrain returns the process that drains, or nil.
func (s *proxySupervisor) startDrain(generation uint64) *proxyProcess {
	s.minGeneration = generation + 1
	s.upstreams.setTargets(nil, 0)
	if s.process != nil {
		s.process.drained.Drop() // a late one
	}
	s.send(protocol.Command{Drain: &protocol.Drain{Budget: drainTimeout}}, -1)
	return s.process
}

// probeUpstreams has the process that answers clients connect to each ingress address. Without a
// reply the result is nil. One goroutine calls it.
func (s *proxySupervisor) probeUpstreams(ctx context.Context) []protocol.Reachability {
	p := s.serving.Load()
	if p == nil {
		return nil
	}
	return awaitResults(ctx, p, protocol.Command{ProbeIngress: &protocol.ProbeIngress{}}, p.probed)
}

// testVIPs has the process that answers clients send a test request to each VIP. Without
// results, or with those of other VIPs, it returns nil. One goroutine calls it.
func (s *proxySupervisor) testVIPs(ctx context.Context, vips []netip.Addr) []protocol.VIPTested {
	p := s.serving.Load()
	if p == nil {
		return nil
	}
	results := awaitResults(ctx, p, protocol.Command{TestVIPs: &protocol.TestVIPs{VIPs: vips}}, p.tested)
	if !slices.EqualFunc(results, vips, func(r protocol.VIPTested, vip netip.Addr) bool { return r.VIP == vip }) {
		return nil
	}
	return results
}

// awaitResults sends a command and waits for its results. It does not wait for the supervisor.
func awaitResults[T any](ctx context.Context, p *proxyProcess, c protocol.Command, results *mailbox.Mailbox[[]T]) []T {
	results.Drop()            // late ones
	if p.Send(c, -1) != nil { // which only queues it
		return nil
	}
	select {
	case all := <-results.Values:
		return all
	case <-p.Done():
	case <-ctx.Done():
	}
	return nil
}

// confirmVIP reports whether the service answers at port 80 of a VIP, by a prober process: the
// proxy process alone cannot end a finding.
func confirmVIP(ctx context.Context, vip netip.Addr) bool {
	ctx, cancel := context.WithTimeout(ctx, selfTestMargin)
	defer cancel()
	pages := &keptProber{}
	defer pages.close()
	page, err := pages.fetch(ctx, probing.FetchRequest{
		Addr: netip.AddrPortFrom(vip, 80), Host: hostOf(vip), Path: report.TestPath,
		UserAgent: report.TestUserAgent, ConnectTimeout: selfTestConnectTimeout,
	})
	return err == nil && page.Status == 400 && string(page.Body) == report.OnlyChallenges
}

// flush returns when the process has sent what has happened so far. It sends statistics
// at intervals otherwise.
func (s *proxySupervisor) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	s.request(ctx, protocol.Command{Flush: &protocol.Flush{}})
}

// announceSelfTest announces a self-test. It reports whether the process that answers
// clients has received it.
func (s *proxySupervisor) announceSelfTest(ctx context.Context, t protocol.SelfTest) bool {
	return s.request(ctx, protocol.Command{SelfTest: &t})
}

// request sends the process that answers clients a command, and reports whether it has handled
// it. It does not wait for the supervisor.
func (s *proxySupervisor) request(ctx context.Context, c protocol.Command) bool {
	p := s.serving.Load()
	if p == nil {
		return false
	}
	select {
	case <-p.request(c):
		return true
	case <-p.Done():
	case <-ctx.Done():
	}
	return false
}

// awaitSettings returns when a process answers clients by the settings of a generation, or
// when ctx ends. One goroutine calls it.
func (s *proxySupervisor) awaitSettings(ctx context.Context, generation uint64) {
	for {
		// A process that answers clients after the settings were applied has got them.
		if s.applied.Load() >= generation && s.request(ctx, protocol.Command{Flush: &protocol.Flush{}}) {
			return
		}
		select {
		case <-s.settingsSent: // its successor gets the settings too
		case <-s.stopped:
			return
		case <-ctx.Done():
			return
		}
	}
}

// hasBacklogRoom reports whether the socket on a port listens and has room for
// connections.
func (s *proxySupervisor) hasBacklogRoom(port uint16) bool {
	room, _ := query(s, func(reply chan<- bool) { reply <- s.listeners.hasBacklogRoom(port) })
	return room
}

// requestReplacement has a process replaced, unless it already was.
func (s *proxySupervisor) requestReplacement(p *proxyProcess, reason string) bool {
	return s.submit(func() {
		if s.process != nil && s.process == p {
			s.replace(reason)
		}
	})
}

// applySettings sends the process what differs from its current settings. The routes
// through an egress proxy take effect with the configuration that they belong to.
func (s *proxySupervisor) applySettings(v proxySettings) {
	if v.generation < s.minGeneration {
		return
	}
	before := s.current
	s.current = v
	s.publishCauses()
	if v.cas != nil && !sameCAs(before.cas, v.cas) {
		s.send(protocol.Command{CAs: v.cas}, -1)
	}
	if !s.configured || !sameProxyConfig(before, v) {
		s.send(protocol.Command{Configure: s.configureCommand()}, -1)
		s.upstreams.setTargets(v.ingress, v.config.Upstream.InitialPort())
	}
	if !s.configured {
		s.configured = true
		s.sendListeners() // also those of the previous service process
		s.setServing(s.process)
	}
	s.applied.Store(v.generation)
	s.settingsSent.Fire()
}

func (s *proxySupervisor) publishCauses() {
	upstream := ingress.Upstream{VerifyNames: s.current.config.Upstream.VerifyNames}
	causes := ingress.CauseContext(&upstream, s.current.cas, &s.current.egress)
	s.causes.Store(&causes)
}

// sameCAs prevents a command after which the process would verify all routers again.
func sameCAs(a, b *ingress.CABundle) bool {
	return a == b || a != nil && b != nil && a.Equal(*b)
}

// configureCommand returns the settings in force.
func (s *proxySupervisor) configureCommand() *protocol.Configure {
	c := s.current.config
	return &protocol.Configure{
		Hosts:          c.Hosts,
		MaxConnections: s.boundConnections(c.Limits.MaxConnections),
		PerSource:      c.Limits.PerSource,
		HeadTimeout:    c.Limits.HeadTimeout,
		HeadBytes:      c.Limits.HeadBytes,
		Instance:       s.instance,
		Upstream:       ingress.FromConfig(c.Upstream, s.current.ingress),
		Egress:         s.current.egress,
	}
}

// send sends a command to the process. A process that does not take it is killed and
// replaced; the next one gets all settings.
func (s *proxySupervisor) send(c protocol.Command, fd int) (sent bool) {
	if s.process == nil {
		return false
	}
	if s.process.Send(c, fd) != nil { // none is too large: see TestLargestMessages
		_ = s.process.Kill()
		return false
	}
	return true
}

// sendListeners gives the process the listening sockets, unless the next service process
// has them. A previous process can have changed their options: those are reset, or
// another socket replaces the changed one, whose backlog is still served. A socket that
// cannot be checked stays open, and the process is killed. The process also gets the ports
// that were closed before it had settings, and serves their backlogs.
func (s *proxySupervisor) sendListeners() {
	if s.keep || s.process == nil {
		return
	}
	for _, port := range s.listeners.ports() {
		if _, kept := s.listeners.fds[port]; !s.sendListener(port) && kept {
			s.publishPorts() // the next process gets all, and the backlogs of the closed ports
			return
		}
	}
	for port, c := range s.closing {
		if !c.queued {
			continue
		}
		if _, err := listeningPort(c.fd); err != nil { // a previous process has shut it down
			s.closeSocket(port)
			continue
		}
		_ = resetOptions(c.fd) // the socket is closed soon in any case
		if !s.send(protocol.Command{Listen: &protocol.Listen{Port: port}}, c.fd) {
			break // the next process gets it
		}
		c.queued, c.deadline = false, time.Now().Add(stopListeningTimeout)
		s.send(protocol.Command{StopListening: &protocol.StopListening{Port: port}}, -1)
	}
	s.publishPorts()
}

// sendListener gives the process the listening socket on a port, or another one that replaces
// it. It returns false if the process does not have one: without a descriptor to check or to
// send the socket, it kills the process and keeps the socket for the next one; without a
// replacement, the port is closed.
func (s *proxySupervisor) sendListener(port uint16) bool {
	listen := protocol.Command{Listen: &protocol.Listen{Port: port}}
	old := s.listeners.fds[port]
	changed := resetOptions(old)
	switch {
	case changed == nil:
		return s.send(listen, old)
	case errors.Is(changed, errNotCompared):
		s.log.Error(
			fmt.Sprintf("cannot check the listening socket on port %d: raise LimitNOFILE of the unit if this is repeated", port),
			slog.String("event", "listen"), slog.Any("error", changed))
		_ = s.process.Kill()
		return false
	}
	s.log.Warn(
		fmt.Sprintf("the previous proxy process changed the listening socket on port %d: another socket replaces it", port),
		slog.String("event", "listen"), slog.Any("error", changed))
	if _, err := listeningPort(old); err == nil {
		s.send(listen, old)
		s.send(protocol.Command{StopListening: &protocol.StopListening{Port: port}}, -1)
	}
	fresh, err := listenReusePort(port, old)
	if err == nil {
		// Before the descriptor store, which can take seconds.
		s.send(listen, fresh)
	}
	s.listeners.close(port)
	if err != nil {
		s.log.Error(
			fmt.Sprintf("cannot replace the listening socket on port %d; retrying with the next reconciliation", port),
			slog.String("event", "listen"), slog.Any("error", err))
		return false
	}
	s.listeners.add(port, fresh)
	return true
}

// reservedDescriptors are for everything but requests, and for evicted connections.
const reservedDescriptors = 256

// boundConnections limits maxConnections by the descriptor limit of the process. A
// request takes two descriptors: to the client and to the ingress. Half as many clients
// can wait for a slot of their source, and a quarter as many descriptors are for idle
// connections to the ingress. A client that is queued in the backlog is better off than one
// that is accepted and gets a 502.
func (s *proxySupervisor) boundConnections(maxConnections int) int {
	descriptors := 2*maxConnections + maxConnections/2 + maxConnections/4 + reservedDescriptors
	needed := uint64(descriptors) //nolint:gosec // bounded by pkg/config
	var limit unix.Rlimit         // of this process, which the proxy process inherits; Go's runtime raises that to Max
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil || limit.Max >= needed {
		return maxConnections
	}
	reduced := max(1, (int(limit.Max)-reservedDescriptors)*4/11) //nolint:gosec // below needed
	if s.reducedConnections != reduced {
		s.reducedConnections = reduced
		s.log.Warn(fmt.Sprintf("limits.maxConnections is reduced to %d: the descriptor limit is %d; raise LimitNOFILE to %d",
			reduced, limit.Max, needed), slog.String("event", "limits"))
	}
	return reduced
}
