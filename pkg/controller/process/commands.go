// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/mailbox"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
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

// submit makes the goroutine of Run call f. It reports false after Run returned.
func (s *Supervisor) submit(f func()) bool {
	select {
	case s.commands <- f:
		return true
	case <-s.stopped:
		return false
	}
}

// query makes the goroutine of Run call f, and returns the reply that f sends. It reports false
// after Run returned.
func query[T any](s *Supervisor, f func(reply chan<- T)) (reply T, answered bool) {
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
// until the process closes it: if the port is opened again meanwhile, the socket is.
type closingPort struct {
	deadline time.Time
	fd       int
	queued   bool // no process serves its backlog yet: see sendListeners
}

// openPort listens on a port beside any other.
func (s *Supervisor) openPort(port uint16) error {
	if closing := s.closing[port]; closing != nil {
		delete(s.closing, port)
		if !closing.queued {
			s.reopened[port]++
		}
		s.Listeners.add(port, closing.fd)
		if s.configured && s.process != nil {
			s.sendListener(port)
		}
		s.publishPorts()
		if _, open := s.Listeners.fds[port]; !open {
			return fmt.Errorf("replace the listening socket on port %d, which a previous proxy process has changed", port)
		}
		return nil
	}
	if _, open := s.Listeners.fds[port]; open {
		return nil
	}
	fd, err := s.Listeners.open(port)
	if err == nil && s.configured {
		s.send(protocol.Command{Listen: &protocol.Listen{Port: port}}, fd)
	}
	s.publishPorts()
	return err
}

// closeOthers closes every port but one. A client whose handshake began before the table
// changed still arrives at the old port: the process serves the old port for a moment.
// redirected means that connections of redirected clients wait in the backlogs of the others.
//
// It replies when openPorts no longer returns the others. They may still be open, because
// systemd's store can take seconds to close them.
func (s *Supervisor) closeOthers(port uint16, redirected bool, reply chan<- struct{}) {
	// An open that follows must not rely on a port that is being closed.
	left := slices.DeleteFunc(s.Listeners.Ports(), func(p uint16) bool { return p != port })
	s.ports.Store(&left)
	reply <- struct{}{}
	for _, other := range s.Listeners.Ports() {
		if other == port {
			continue
		}
		if redirected && (s.process == nil || !s.configured) {
			// Earlier connections, such as those during a restart, wait in its backlog.
			fd := s.Listeners.release(other) // can take seconds
			s.closing[other] = &closingPort{deadline: time.Now().Add(queuedTimeout), fd: fd, queued: true}
			continue
		}
		if s.process == nil {
			s.Listeners.close(other)
			continue
		}
		s.send(protocol.Command{StopListening: &protocol.StopListening{Port: other}}, -1)
		s.closing[other] = &closingPort{deadline: time.Now().Add(stopListeningTimeout), fd: s.Listeners.release(other)}
	}
	s.publishPorts()
}

// recordStopped records that the process closed a port. If the port was opened again after the
// command to close it, the process holds the socket again.
func (s *Supervisor) recordStopped(port uint16) {
	if s.reopened[port] > 0 {
		s.reopened[port]--
		return
	}
	s.closeSocket(port)
}

// closeSocket closes the socket of a closing port.
func (s *Supervisor) closeSocket(port uint16) {
	if c := s.closing[port]; c != nil {
		delete(s.closing, port)
		giveUp(c.fd)
	}
}

// closeAllPorts closes every port.
func (s *Supervisor) closeAllPorts(reply chan<- struct{}) {
	s.configured = false
	s.setServing(nil)
	for port, closing := range s.closing {
		if closing.queued {
			s.closeSocket(port)
		}
	}
	s.closeOthers(0, false, reply) // also of a process that started during the drain
}

// drain makes the process close every port and complete the requests in flight, within
// drainTimeout. It logs what was cut off. Settings up to the generation that arrive later are
// dropped: they would give the process its listening sockets again.
func (s *Supervisor) drain(generation uint64) {
	p, _ := query(s, func(reply chan<- *Proxy) { reply <- s.startDrain(generation) })
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
		s.Log.Warn("requests in flight were cut off", slog.String("event", "drain"), slog.String("error", message))
	}
}

// startDrain returns the process that drains, or nil.
func (s *Supervisor) startDrain(generation uint64) *Proxy {
	s.minGeneration = generation + 1
	s.SetTargets(nil, 0)
	if s.process != nil {
		s.process.drained.Drop() // a late one
	}
	s.send(protocol.Command{Drain: &protocol.Drain{Budget: drainTimeout}}, -1)
	return s.process
}

// ProbeUpstreams makes the process that answers clients connect to each ingress address. Without a
// reply the result is nil. One goroutine calls it.
func (s *Supervisor) ProbeUpstreams(ctx context.Context) []protocol.Reachability {
	p := s.serving.Load()
	if p == nil {
		return nil
	}
	return awaitResults(ctx, p, protocol.Command{ProbeIngress: &protocol.ProbeIngress{}}, p.probed)
}

// TestVIPs makes the process that answers clients send a test request to each VIP. Without
// results, or with those of other VIPs, it returns nil. One goroutine calls it.
func (s *Supervisor) TestVIPs(ctx context.Context, vips []netip.Addr) []protocol.VIPTested {
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
func awaitResults[T any](ctx context.Context, p *Proxy, c protocol.Command, results *mailbox.Mailbox[[]T]) []T {
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

// Flush returns when the process sent what happened so far. Otherwise it sends statistics at
// intervals.
func (s *Supervisor) Flush() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	s.request(ctx, protocol.Command{Flush: &protocol.Flush{}})
}

// AnnounceSelfTest announces a self-test. It reports whether the process that answers
// clients received it.
func (s *Supervisor) AnnounceSelfTest(ctx context.Context, t protocol.SelfTest) bool {
	return s.request(ctx, protocol.Command{SelfTest: &t})
}

// request sends the process that answers clients a command, and reports whether it handled
// it. It does not wait for the supervisor.
func (s *Supervisor) request(ctx context.Context, c protocol.Command) bool {
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
func (s *Supervisor) awaitSettings(ctx context.Context, generation uint64) {
	for {
		// A process that answers clients after the settings were applied received them.
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

// Backlog returns what waits at the socket on a port.
func (s *Supervisor) Backlog(port uint16) Backlog {
	b, _ := query(s, func(reply chan<- Backlog) { reply <- s.Listeners.backlog(port) })
	return b
}

// RequestReplacement replaces a process, unless it is already replaced.
func (s *Supervisor) RequestReplacement(p *Proxy, reason string) bool {
	return s.submit(func() {
		if s.process != nil && s.process == p {
			s.replace(reason)
		}
	})
}

// applySettings sends the process what differs from its current settings. The routes
// through an egress proxy take effect with the configuration that they belong to.
func (s *Supervisor) applySettings(v Settings) {
	if v.Generation < s.minGeneration {
		return
	}
	before := s.current
	s.current = v
	s.publishCauses()
	if v.CAs != nil && !sameCAs(before.CAs, v.CAs) {
		s.send(protocol.Command{CAs: v.CAs}, -1)
	}
	if !s.configured || !sameProxyConfig(before, v) {
		s.send(protocol.Command{Configure: s.configureCommand()}, -1)
		s.SetTargets(v.Ingress, v.Config.Upstream.InitialPort())
	}
	if !s.configured {
		s.configured = true
		s.sendListeners() // also the ones of the previous service process
		s.setServing(s.process)
	}
	s.applied.Store(v.Generation)
	s.settingsSent.Fire()
}

func (s *Supervisor) publishCauses() {
	upstream := ingress.Upstream{VerifyNames: s.current.Config.Upstream.VerifyNames}
	causes := ingress.CauseContext(&upstream, s.current.CAs, &s.current.Egress)
	s.Causes.Store(&causes)
}

// sameCAs prevents a command after which the process would verify all routers again.
func sameCAs(a, b *ingress.CABundle) bool {
	return a == b || a != nil && b != nil && a.Equal(*b)
}

// configureCommand returns the command with the current settings.
func (s *Supervisor) configureCommand() *protocol.Configure {
	c := s.current.Config
	return &protocol.Configure{
		Hosts:          c.Hosts,
		MaxConnections: s.boundConnections(c.Limits.MaxConnections),
		PerSource:      c.Limits.PerSource,
		HeadTimeout:    c.Limits.HeadTimeout,
		HeadBytes:      c.Limits.HeadBytes,
		Instance:       s.Instance,
		Upstream:       ingress.FromConfig(c.Upstream, s.current.Ingress),
		Egress:         s.current.Egress,
	}
}

// send sends a command to the process. A process that does not take it is killed and
// replaced; the next one gets all settings.
func (s *Supervisor) send(c protocol.Command, fd int) (sent bool) {
	if s.process == nil {
		return false
	}
	if s.process.Send(c, fd) != nil { // none is too large: see TestLargestMessages
		_ = s.process.Kill()
		return false
	}
	return true
}

// sendListeners gives the process the listening sockets, unless the next service process holds
// them. A previous process may have changed their options: these are reset, or another socket
// replaces the changed one, whose backlog is still served. A socket that cannot be checked
// stays open, and the process is killed. The process also gets the ports that were closed
// before it received settings, and serves their backlogs.
func (s *Supervisor) sendListeners() {
	if s.keep || s.process == nil {
		return
	}
	for _, port := range s.Listeners.Ports() {
		if _, kept := s.Listeners.fds[port]; !s.sendListener(port) && kept {
			s.publishPorts() // the next process gets all, and the backlogs of the closed ports
			return
		}
	}
	for port, c := range s.closing {
		if !c.queued {
			continue
		}
		if _, err := listeningPort(c.fd); err != nil { // a previous process shut it down
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
// it. It returns false if the process did not get one: without a descriptor to check or to send
// the socket, it kills the process and keeps the socket for the next one; without a
// replacement, the port is closed.
func (s *Supervisor) sendListener(port uint16) bool {
	listen := protocol.Command{Listen: &protocol.Listen{Port: port}}
	old := s.Listeners.fds[port]
	changed := resetOptions(old)
	switch {
	case changed == nil:
		return s.send(listen, old)
	case errors.Is(changed, errNotCompared):
		message := fmt.Sprintf("cannot check the listening socket on port %d: "+
			"raise LimitNOFILE of the unit if this happens again", port)
		s.Log.Error(message, slog.String("event", "listen"), slog.Any("error", changed))
		_ = s.process.Kill()
		return false
	}
	message := fmt.Sprintf("the previous proxy process changed the listening socket on port %d: "+
		"another socket replaces it", port)
	s.Log.Warn(message, slog.String("event", "listen"), slog.Any("error", changed))
	_, notListening := listeningPort(old)
	if notListening == nil {
		s.send(listen, old)
		s.send(protocol.Command{StopListening: &protocol.StopListening{Port: port}}, -1)
	}
	replacement, err := listenReusePort(port, old)
	if err == nil {
		// Before the descriptor store, which can take seconds.
		s.send(listen, replacement)
	}
	s.Listeners.release(port)
	if err == nil && notListening == nil {
		time.AfterFunc(stopListeningTimeout, func() { giveUp(old) }) // the process serves its backlog
	} else {
		giveUp(old)
	}
	if err != nil {
		message = fmt.Sprintf("cannot replace the listening socket on port %d; "+
			"retrying with the next reconciliation", port)
		s.Log.Error(message, slog.String("event", "listen"), slog.Any("error", err))
		return false
	}
	s.Listeners.add(port, replacement)
	return true
}

// reservedDescriptors are for everything but requests, and for evicted connections, which use
// two each.
const reservedDescriptors = 640

// boundConnections limits maxConnections by the resources of this host, and logs that.
func (s *Supervisor) boundConnections(maxConnections int) int {
	limit := unix.Rlimit{Max: math.MaxInt32}
	// The limit of this process, which the proxy process inherits. Go's runtime raises it to
	// Max.
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	descriptors := int(min(limit.Max, math.MaxInt32))
	bound, reason := connectionBound(maxConnections, descriptors, ephemeralPorts())
	if reason != "" && s.reducedConnections != bound {
		s.reducedConnections = bound
		s.Log.Warn(fmt.Sprintf("limits.maxConnections is reduced to %d: %s", bound, reason), slog.String("event", "limits"))
	}
	return bound
}

// connectionBound returns how many clients are served at a time, and the reason if these are
// fewer than maxConnections. A client that is queued in the backlog is better off than one that
// is accepted and gets a 502.
//
// A challenge takes two descriptors: to the client and to the ingress. Half as many clients can wait
// for their heads or for a slot, and a quarter as many descriptors are for idle connections to the
// ingress. All connections to the ingress can be to one address. They take at most half of the
// ports with which this host can connect there.
func connectionBound(maxConnections, descriptors, ports int) (bound int, reason string) {
	bound = maxConnections
	if n := (descriptors - reservedDescriptors) * 4 / 11; n < bound {
		needed := 2*maxConnections + maxConnections/2 + maxConnections/4 + reservedDescriptors
		bound, reason = n, fmt.Sprintf("the descriptor limit is %d; raise LimitNOFILE to %d", descriptors, needed)
	}
	if n := ports / 2 * 4 / 5; n < bound {
		bound, reason = n, fmt.Sprintf("the host has %d ports for connections to one ingress address; "+
			"raise net.ipv4.ip_local_port_range", ports)
	}
	return max(1, bound), reason
}

// ephemeralPorts returns the number of local ports of connections (ip(7), ip_local_port_range).
func ephemeralPorts() int {
	var first, last int
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		_, err = fmt.Sscan(string(text), &first, &last)
	}
	if err != nil {
		return math.MaxUint16 // a later connection attempt reports a lack of them
	}
	return last - first + 1
}
