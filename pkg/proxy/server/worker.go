// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/loop"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
)

const (
	// acceptBatch bounds the connections that are accepted for an event. Others follow
	// afterwards.
	acceptBatch = 8

	// acceptRetryDelay is the wait after an error of accept(2).
	acceptRetryDelay = 250 * time.Millisecond

	// scratchSize is the memory for bytes that are read and dropped.
	scratchSize = 8 << 10
	// maxFree bounds the connections whose memory is kept for the next ones, and the
	// goroutines that wait for a request.
	maxFree = 128
)

// worker is the state of one event loop. It belongs to its thread.
type worker struct {
	*loop.Loop

	server    *Server
	stopped   chan struct{} // closed when the loop ended
	acceptors []*acceptor
	held      []*connection // accepted, but without a slot: nothing more is accepted
	resume    loop.Timer    // calls acceptAgain

	connections loop.List[connection] // all, in the order of their arrival
	idle        loop.List[link]       // in the order of their last use
	idleCount   int
	free        []*connection

	delegates     chan *connection // to goroutines that wait for one
	idleDelegates atomic.Int32     // goroutines that wait

	scratch [scratchSize]byte
	host    string // of the last challenge
}

func newWorker(s *Server) (*worker, error) {
	l, err := loop.New()
	if err != nil {
		return nil, err
	}
	w := &worker{Loop: l, server: s, stopped: make(chan struct{}), delegates: make(chan *connection)}
	w.resume.Expired = w.acceptAgain
	return w, nil
}

// run runs the loop until ctx is done, and then closes everything.
func (w *worker) run(ctx context.Context, beat func()) error {
	defer close(w.delegates)
	defer close(w.stopped)
	defer w.closeAll()
	return w.Run(ctx, beat)
}

func (w *worker) closeAll() {
	w.closeConnections()
	for l := w.idle.First(); l != nil; l = w.idle.First() {
		l.close()
	}
}

func (w *worker) closeConnections() {
	w.held = nil
	for c := w.connections.First(); c != nil; c = w.connections.First() {
		c.cut()
	}
}

// shortenHeads bounds the wait for the heads that are being read. Later connections get all
// their time, because a port can be opened again.
func (w *worker) shortenHeads(deadline time.Time) {
	for c := range w.connections.Backward {
		if c.state != reading {
			continue
		}
		c.headTimeout = min(c.headTimeout, deadline.Sub(c.acceptedAt))
		if c.isInFlight() {
			c.await(c.headDeadline())
		}
	}
}

// perform runs f on the thread of the loop, and waits until f or the loop ends.
func (w *worker) perform(f func()) {
	done := make(chan struct{})
	w.Post(func() {
		defer close(done)
		f()
	})
	select {
	case <-done:
	case <-w.stopped:
	}
}

// acceptor accepts the connections of one listener for one worker.
type acceptor struct {
	*worker

	fd int
}

// Ready implements loop.Handler. It accepts all before it reads from the first, whose
// request arrives meanwhile.
func (a *acceptor) Ready(uint32) {
	var batch [acceptBatch]*connection
	n := 0
	for ; n < acceptBatch && len(a.held) == 0; n++ {
		fd, remote, err := loop.Accept(a.fd)
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if err != nil {
			// For example, no descriptor is free. New connections are queued in the backlog.
			a.server.recorder.RecordAcceptFailure(err)
			a.pause(acceptRetryDelay)
			break
		}
		batch[n] = a.newConnection(fd, remote)
	}
	for _, c := range batch[:n] {
		c.to(reading)
		c.read() // admits it
	}
}

// pause stops accepting for some time, or until a slot may be free.
func (w *worker) pause(maxWait time.Duration) {
	for _, a := range w.acceptors {
		w.Unwatch(a.fd)
	}
	w.SetTimer(&w.resume, time.Now().Add(maxWait))
}

// acceptAgain requests slots for the connections that are held, and accepts others if all got
// one.
func (w *worker) acceptAgain() {
	w.StopTimer(&w.resume)
	if w.admitHeld(false); len(w.held) > 0 {
		return
	}
	for _, a := range w.acceptors {
		w.Unwatch(a.fd) // it may be watched
		if err := w.WatchShared(a.fd, a); err != nil {
			w.server.recorder.RecordAcceptFailure(err)
			w.pause(acceptRetryDelay)
			return
		}
	}
}

// listen starts to accept the connections of a listening socket.
func (w *worker) listen(fd int) (err error) {
	a := &acceptor{w, fd}
	w.acceptors = append(w.acceptors, a)
	if len(w.held) == 0 {
		err = w.WatchShared(fd, a)
	}
	return err
}

// stopListening ends listen. The clients that are held were accepted: they are served
// although no slot is free.
func (w *worker) stopListening(fd int) {
	for i, a := range w.acceptors {
		if a.fd == fd {
			w.acceptors = append(w.acceptors[:i:i], w.acceptors[i+1:]...)
			w.Unwatch(fd)
		}
	}
	w.admitHeld(true)
	w.acceptAgain()
}

func (w *worker) admitHeld(unbounded bool) {
	waiting := w.held
	w.held = nil
	for _, c := range waiting {
		c.acceptedAt = w.Now() // its time begins with a slot
		c.admit(unbounded)
	}
}

// hostOf returns the Host field of a request. Most requests are for the same host as the
// previous one.
func (w *worker) hostOf(r *reqhead.Request) string {
	if host := r.Host(); w.host != string(host) {
		w.host = string(host)
	}
	return w.host
}

func (w *worker) newConnection(fd int, client netip.AddrPort) *connection {
	var c *connection
	if n := len(w.free); n > 0 {
		c, w.free = w.free[n-1], w.free[:n-1]
	} else {
		c = newConnection(w)
	}
	c.fd, c.client, c.settings, c.acceptedAt = fd, client, w.server.settings.Load(), w.Now()
	c.headTimeout = c.settings.HeadTimeout
	w.connections.PushBack(&c.workerEntry, c)
	return c
}
