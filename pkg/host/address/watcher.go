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
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	// defaultReceiveBuffer holds the events of some hundred address changes
	// between two reads, in bytes as the kernel accounts for them.
	defaultReceiveBuffer = 1 << 20

	minBackoff = 10 * time.Millisecond
	maxBackoff = time.Second
)

// Watcher watches the addresses of the network namespace in which it was
// opened. Its methods are safe for concurrent use, but for Run, which is called
// once.
type Watcher struct {
	log       *slog.Logger
	buffer    int
	changed   chan struct{}
	dumper    dumper
	subscribe func() (*netlink.Conn, error)

	mu     sync.Mutex
	events *netlink.Conn
	closed bool
}

// Option changes how a Watcher is opened.
type Option func(*Watcher)

// WithLogger makes the watcher log lost events and broken sockets; without it,
// it is silent.
func WithLogger(log *slog.Logger) Option {
	return func(w *Watcher) { w.log = log }
}

// WithReceiveBuffer sets the size in bytes of the kernel's queue of events that
// are not read yet. The kernel rounds small sizes up (SO_RCVBUF, socket(7)).
func WithReceiveBuffer(bytes int) Option {
	return func(w *Watcher) { w.buffer = bytes }
}

// Open subscribes to the address events of both families. Whatever changes
// after it returns makes Changed fire once Run runs, so a Snapshot taken after
// Open misses nothing.
func Open(options ...Option) (*Watcher, error) {
	w := &Watcher{
		log:     slog.New(slog.DiscardHandler),
		buffer:  defaultReceiveBuffer,
		changed: make(chan struct{}, 1),
	}
	for _, o := range options {
		o(w)
	}
	w.subscribe = w.openSubscription
	events, err := w.subscribe()
	if err != nil {
		return nil, err
	}
	w.events = events
	return w, nil
}

// openSubscription opens a socket of its own for events: a dump on the same socket would
// have to be told apart from them.
func (w *Watcher) openSubscription() (*netlink.Conn, error) {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{
		Groups: unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR,
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to address events: %w", err)
	}
	if err := conn.SetReadBuffer(w.buffer); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("set the receive buffer for address events: %w", err)
	}
	return conn, nil
}

// Snapshot returns every address of the host as of now, in the kernel's order.
func (w *Watcher) Snapshot() ([]Address, error) { return w.dumper.snapshot() }

// Changed fires after the addresses may have changed. Several changes may make
// it fire once, and it may fire without any change.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Run turns events into Changed until ctx is done, and then returns nil. Errors
// end it only when the watcher was closed: a lost event is a change, and a broken
// socket is one too and is opened anew, with pauses of up to a second between
// attempts.
func (w *Watcher) Run(ctx context.Context) error {
	for {
		events, err := w.currentConn()
		if err != nil {
			return err
		}
		err = w.receive(ctx, events)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the interrupted read is how the end of ctx shows
		}
		w.notify()
		if err := w.reopen(ctx, err); err != nil {
			return err
		}
		// What changed while there was no subscription made no event.
		w.notify()
	}
}

// receive notifies for each event until the socket is broken or ctx is done.
func (w *Watcher) receive(ctx context.Context, events *netlink.Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = events.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		_, err := events.Receive()
		switch {
		case err == nil:
		case errors.Is(err, unix.ENOBUFS):
			w.log.LogAttrs(ctx, slog.LevelInfo, "address events were lost: the addresses are read again",
				slog.String("event", "address_overflow"))
		case errors.Is(err, unix.EINTR):
		default:
			return err
		}
		w.notify()
	}
}

func (w *Watcher) notify() {
	select {
	case w.changed <- struct{}{}:
	default: // the reader has not taken the last one yet, and will see this change too
	}
}

// reopen replaces the broken socket, and waits between attempts. It returns nil
// when it did or when ctx is done, and an error when the watcher was closed.
func (w *Watcher) reopen(ctx context.Context, cause error) error {
	for pause := minBackoff; ; pause = min(2*pause, maxBackoff) {
		if _, err := w.currentConn(); err != nil {
			return err
		}
		w.log.LogAttrs(ctx, slog.LevelWarn, "the subscription to address events broke: subscribing again",
			slog.String("event", "address_resubscribe"), slog.Any("error", cause), slog.Duration("pause", pause))
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

// sleep reports whether the pause was over before ctx was done.
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

// currentConn is the socket in use; it fails when the watcher is closed.
func (w *Watcher) currentConn() (*netlink.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, fmt.Errorf("watch the addresses of this host: %w", net.ErrClosed)
	}
	return w.events, nil
}

func (w *Watcher) replaceConn(events *netlink.Conn) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		_ = events.Close()
		return fmt.Errorf("watch the addresses of this host: %w", net.ErrClosed)
	}
	_ = w.events.Close()
	w.events = events
	return nil
}

// Close closes the sockets; it makes a Run that still runs return an error that
// is net.ErrClosed. Closing again does nothing.
func (w *Watcher) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	return errors.Join(w.events.Close(), w.dumper.close())
}
