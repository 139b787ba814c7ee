// SPDX-License-Identifier: Apache-2.0

//go:build linux

package address

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	// defaultReceiveBuffer holds the events of some hundred address changes between two reads,
	// in bytes as the kernel counts them.
	defaultReceiveBuffer = 1 << 20

	minBackoff = 10 * time.Millisecond
	maxBackoff = time.Second
)

// Watcher watches the addresses of the network namespace in which it was opened. Its
// methods are safe for concurrent use, except Run, which is called once.
type Watcher struct {
	log       *slog.Logger
	buffer    int
	changed   chan struct{}
	dumper    dumper
	subscribe func() (*netlink.Conn, error)

	eventTime atomic.Pointer[time.Time] // of the first event since TakeEventTime

	mu     sync.Mutex
	events *netlink.Conn
	closed bool
}

// Open subscribes to the address events of both families. Run signals every change
// after Open returns, so a Snapshot after Open misses no change. log gets lost events
// and broken sockets.
func Open(log *slog.Logger) (*Watcher, error) { return open(log, defaultReceiveBuffer) }

func open(log *slog.Logger, buffer int) (*Watcher, error) {
	w := &Watcher{log: log, buffer: buffer, changed: make(chan struct{}, 1)}
	w.subscribe = w.openSubscription
	events, err := w.subscribe()
	if err != nil {
		return nil, err
	}
	w.events = events
	return w, nil
}

// openSubscription opens a separate socket for events, so that nothing needs to tell dumps from
// events.
func (w *Watcher) openSubscription() (*netlink.Conn, error) {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{
		Groups: unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot subscribe to address events: %w", err)
	}
	if err := conn.SetReadBuffer(w.buffer); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("cannot set the receive buffer for address events: %w", err)
	}
	return conn, nil
}

// Snapshot returns all current addresses of this host, in the kernel's order.
func (w *Watcher) Snapshot() ([]Address, error) { return w.dumper.snapshot() }

// Changed receives a value after the addresses may have changed. One value may stand
// for several changes, or for none.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Run signals Changed for each event until ctx is done, and then returns nil. It returns
// an error only if the watcher was closed. A lost event counts as a change. A broken
// socket counts as a change and is reopened, with pauses of up to a second.
func (w *Watcher) Run(ctx context.Context) error {
	for {
		events, err := w.currentConn()
		if err != nil {
			return err
		}
		err = w.receive(ctx, events)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end of ctx interrupts the read
		}
		w.notify()
		if err := w.reopen(ctx, err); err != nil {
			return err
		}
		// Changes without a subscription produced no event.
		w.notify()
	}
}

// receive signals each event until the socket is broken or ctx is done.
func (w *Watcher) receive(ctx context.Context, events *netlink.Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = events.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		_, err := events.Receive()
		switch {
		case err == nil:
		case errors.Is(err, unix.ENOBUFS):
			w.log.LogAttrs(ctx, slog.LevelInfo, "address events lost; reading all addresses again",
				slog.String("event", "address-overflow"))
		case errors.Is(err, unix.EINTR):
		default:
			return err
		}
		w.notify()
	}
}

// TakeEventTime returns when the first event since the last call was received; the zero
// time without an event.
func (w *Watcher) TakeEventTime() time.Time {
	if at := w.eventTime.Swap(nil); at != nil {
		return *at
	}
	return time.Time{}
}

func (w *Watcher) notify() {
	now := time.Now()
	w.eventTime.CompareAndSwap(nil, &now)
	select {
	case w.changed <- struct{}{}:
	default: // a value is pending, and the snapshot after it will include this change
	}
}

// reopen replaces the broken socket, with pauses between attempts. It returns nil after
// it succeeded or ctx is done, and an error if the watcher was closed.
func (w *Watcher) reopen(ctx context.Context, cause error) error {
	for pause := minBackoff; ; pause = min(2*pause, maxBackoff) {
		if _, err := w.currentConn(); err != nil {
			return err
		}
		w.log.LogAttrs(ctx, slog.LevelWarn, "subscription to address events lost; subscribing again",
			slog.String("event", "address-resubscribe"), slog.Any("error", cause), slog.Duration("pause", pause))
		if !sleep(ctx, pause) {
			return nil
		}
		events, err := w.subscribe()
		if err == nil {
			return w.replaceConn(events)
		}
		cause = err
	}
}

func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (w *Watcher) currentConn() (*netlink.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, fmt.Errorf("cannot watch the addresses of this host: %w", net.ErrClosed)
	}
	return w.events, nil
}

func (w *Watcher) replaceConn(events *netlink.Conn) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		_ = events.Close()
		return fmt.Errorf("cannot watch the addresses of this host: %w", net.ErrClosed)
	}
	_ = w.events.Close()
	w.events = events
	return nil
}

// Close closes the sockets. A running Run then returns an error that wraps
// net.ErrClosed. Further calls do nothing.
func (w *Watcher) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	return errors.Join(w.events.Close(), w.dumper.close())
}
