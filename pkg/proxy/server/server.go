// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/loop"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Upstream forwards requests to the ingress.
type Upstream interface {
	// Direct returns the route of requests that the event loops exchange themselves. ok is
	// false if Exchange must.
	Direct(vip netip.Addr) (d upstream.Direct, ok bool)
	// Exchange forwards r to the ingress, all before the deadline and the end of ctx. It
	// returns the ingress address. The response for the client is in x, unless the failure sets
	// a ClientStatus.
	Exchange(ctx context.Context, r *upstream.Request, x *upstream.Relay) (from netip.AddrPort, failure *upstream.Error)
}

// Recorder records how each connection ended, with exactly one call, and failures of
// accept. It is called from many goroutines and must not block.
type Recorder interface {
	// RecordChallenge records a forwarded request and the failure at the upstream,
	// or nil.
	RecordChallenge(c report.Challenge, failure *cause.Failure)
	// RecordSelfTest records a forwarded request that was announced as a self-test.
	RecordSelfTest(t protocol.SelfTested)
	// RecordRejection records every other connection. The kind of client is
	// [report.OtherClient] unless the request could be parsed.
	RecordRejection(reason report.Rejection, kind report.ClientKind)
	// RecordTestRequest records a test request of a host to a VIP.
	RecordTestRequest(source, vip netip.Addr)
	// RecordAcceptFailure records an error of accept(2), such as a lack of descriptors.
	// New connections are queued in the kernel's backlog then.
	RecordAcceptFailure(err error)
}

// Server accepts connections and serves one request on each. It is safe for
// concurrent use.
type Server struct {
	upstream Upstream
	recorder Recorder
	settings atomic.Pointer[protocol.Configure]
	selfTest atomic.Pointer[protocol.SelfTest] // announced and not requested yet, or nil
	table    *table
	workers  []*worker
	defects  atomic.Uint64 // moves of connections to a state that may not follow
}

const (
	// maxWorkers bounds the event loops, so that a flood leaves the other processors alone.
	maxWorkers = 2
	// drainInterval is the time between two counts of the connections in flight.
	drainInterval = 5 * time.Millisecond
)

// New returns a server that forwards challenges to up. Run runs it.
func New(settings *protocol.Configure, up Upstream, rec Recorder) (*Server, error) {
	server := &Server{upstream: up, recorder: rec, table: newTable()}
	server.Update(settings)
	for range min(runtime.GOMAXPROCS(0), maxWorkers) {
		w, err := newWorker(server)
		if err != nil {
			return nil, err
		}
		server.workers = append(server.workers, w)
	}
	return server, nil
}

// Loops returns the number of event loops.
func (s *Server) Loops() int { return len(s.workers) }

// Run runs the event loops until ctx is done, and then closes what is open. For each loop it
// calls source. The loop calls beat at least once in two seconds, and done at its end.
func (s *Server) Run(ctx context.Context, source func(name string) (beat, done func())) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, w := range s.workers {
		beat, done := source("event loop " + strconv.Itoa(i))
		group.Go(func() error {
			defer done()
			return w.run(ctx, beat)
		})
	}
	return group.Wait()
}

// Listen accepts connections from a listening socket until StopListening. It takes ownership of fd.
//
// While the waiting room is full and no client can be evicted, each event loop accepts
// a few more connections and stops. New connections are queued in the kernel's backlog.
// Errors of accept(2), such as a lack of descriptors, are recorded and retried.
func (s *Server) Listen(fd int) error {
	if err := loop.PrepareListener(fd); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	for _, w := range s.workers {
		var err error
		if w.perform(func() { err = w.listen(fd) }); err != nil {
			s.StopListening(fd)
			return err
		}
	}
	return nil
}

// Backlog returns the number of connections that wait to be accepted from a listening
// socket. The kernel reports it in tcpi_unacked (net/ipv4/tcp.c, tcp_get_info).
func Backlog(fd int) uint32 {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0
	}
	return info.Unacked
}

// StopListening stops accepting and closes the socket. Accepted connections continue; see
// Drain.
func (s *Server) StopListening(fd int) {
	for _, w := range s.workers {
		w.perform(func() { w.stopListening(fd) })
	}
	loop.Close(fd)
}

// Update applies settings to connections that are accepted from now on.
// MaxConnections and PerSource apply at once; each new connection then evicts
// others until the new bounds hold. The settings must not change afterwards.
func (s *Server) Update(settings *protocol.Configure) {
	s.settings.Store(settings)
	s.table.setLimits(settings.MaxConnections, settings.PerSource)
}

// AnnounceSelfTest marks the next request for the token at the VIP as a self-test.
func (s *Server) AnnounceSelfTest(t protocol.SelfTest) { s.selfTest.Store(&t) }

// takeSelfTest returns the announced self-test that the request belongs to, or nil. An
// announcement applies to one request.
func (s *Server) takeSelfTest(c *connection) *protocol.SelfTest {
	t := s.selfTest.Load()
	if t == nil || t.VIP != c.record.VIP || t.Token != string(c.head.Token()) || !s.selfTest.CompareAndSwap(t, nil) {
		return nil
	}
	return t
}

// Drain waits until no connection is in flight. Connections with an incomplete
// request head get one more second. When ctx ends, Drain closes the remaining
// connections and returns their number. Their exchanges with the upstream end by
// the upstream's own bounds. Call Drain after the listeners are closed; otherwise new
// connections keep arriving.
func (s *Server) Drain(ctx context.Context) (cut int) {
	deadline := time.Now().Add(time.Second)
	for _, w := range s.workers {
		w.Post(func() { w.shortenHeads(deadline) })
	}
	tick := time.NewTicker(drainInterval)
	defer tick.Stop()
	for {
		n := s.table.inFlight()
		if n == 0 {
			return 0
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			for _, w := range s.workers {
				w.perform(w.closeConnections)
			}
			return n
		}
	}
}
