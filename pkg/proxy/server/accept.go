// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/tcp"
)

const (
	// The sum stays below the 3 s that Serve promises between two heartbeats.
	heartbeatInterval = time.Second
	acceptTimeout     = time.Second

	minBackOff = 5 * time.Millisecond
	maxBackOff = time.Second
)

// Serve accepts connections from ln until ctx is done or ln is closed, and then
// returns nil. Accepted connections continue; see Drain. Serve does not close ln.
//
// While MaxConnections are in flight and no client can be evicted, Serve accepts
// one more connection and stops. New connections are queued in the kernel's
// backlog. Errors of accept(2), such as a lack of descriptors, are recorded and
// retried.
//
// Serve calls heartbeat at least every 3 s while the loop runs, whatever the loop
// waits for.
func (s *Server) Serve(ctx context.Context, ln *tcp.Listener, heartbeat func()) error {
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = ln.SetDeadline(time.Unix(1, 0))
	})
	defer func() {
		if !stop() {
			<-interrupted
		}
		// The next Serve on this listener must not inherit the deadline.
		_ = ln.SetDeadline(time.Time{})
	}()

	var waiting *connection // accepted, but without a slot
	defer func() {
		// The client was accepted. It is served although no slot is free.
		if waiting != nil {
			s.start(waiting, true)
		}
	}()
	next := s.nextConnection() // for the next connection
	defer func() { s.pool.Put(next) }()
	var lastHeartbeat time.Time
	backOff := minBackOff
	for {
		if now := time.Now(); now.Sub(lastHeartbeat) >= heartbeatInterval {
			lastHeartbeat = now
			heartbeat()
			if err := ln.SetDeadline(now.Add(acceptTimeout)); err != nil {
				return serveError(err)
			}
		}
		// The check follows the new deadline, so that the deadline that ctx sets is
		// not lost.
		if ctx.Err() != nil {
			return nil
		}
		if waiting != nil {
			if waiting = s.admitOrWait(ctx, waiting); waiting != nil {
				continue
			}
		}
		err := ln.Accept(&next.tcp)
		switch {
		case err == nil:
			backOff = minBackOff
			c := next
			next = s.nextConnection()
			c.recordAddresses()
			waiting = s.admitOrWait(ctx, c)
		case errors.Is(err, os.ErrDeadlineExceeded):
		case errors.Is(err, os.ErrClosed):
			return nil
		default:
			s.recorder.RecordAcceptFailure(err)
			waitForChange(ctx, nil, backOff)
			backOff = min(2*backOff, maxBackOff)
		}
	}
}

func serveError(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return fmt.Errorf("cannot set the deadline of the listener: %w", err)
}

// admitOrWait starts c or rejects it. When no slot is free, admitOrWait waits a
// limited time and returns c.
func (s *Server) admitOrWait(ctx context.Context, c *connection) (waiting *connection) {
	a := s.start(c, false)
	if a.maxWait == 0 {
		return nil
	}
	waitForChange(ctx, a.changed, a.maxWait)
	return c
}

// waitForChange returns when changed is closed, ctx is done or maxWait has passed.
func waitForChange(ctx context.Context, changed <-chan struct{}, maxWait time.Duration) {
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case <-changed:
	case <-ctx.Done():
	case <-timer.C:
	}
}
