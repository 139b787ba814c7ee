// SPDX-License-Identifier: Apache-2.0

package statewriter

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/mailbox"
)

const (
	// saveRetryInterval is the delay after a write that failed.
	saveRetryInterval = 30 * time.Second
	// flushTimeout is how long writes begin at the end of the service. The rest of an
	// orderly end takes some 8 s at most, and TimeoutStopSec of the unit is 15 s. The kernel
	// ends a process only after its fsync in progress.
	flushTimeout = 2 * time.Second
)

// Writer writes the files of the state directory in its own goroutine: an fsync can take
// seconds, and no other goroutine waits for one. Each write carries its data and reads nothing
// that changes.
//
// The files, and when they are written:
//
//	last-accepted.yaml           package config          a configuration was accepted
//	last-good-ca-bundle.crt      package ingress/trust   a CA bundle was accepted
//	accepted-egress-proxy.json   package ingress/egress  an egress proxy was accepted
//
// Counters, challenges and histories are in memory only.
//
// A file that is not written before the end of the service keeps its earlier content. The next
// process starts with that content and uses it only while it rejects the current input.
type Writer struct {
	log     *slog.Logger
	wake    mailbox.Trigger
	stopped chan struct{} // closed when the goroutine of Run writes nothing any more

	logged map[string]string // the last error by name; only the goroutine that writes uses it

	mu      sync.Mutex
	unsaved map[string]*stateFile // that are not written yet, by name
}

// stateFile is what a file must contain.
type stateFile struct {
	event string // of the journal, if the write fails
	write func() error
}

// New returns a writer. It writes nothing before Run.
func New(log *slog.Logger) *Writer {
	return &Writer{
		log: log, wake: mailbox.NewTrigger(), stopped: make(chan struct{}),
		logged: make(map[string]string), unsaved: make(map[string]*stateFile),
	}
}

// Save queues the content of a file, in place of one that is queued already. It never blocks.
func (w *Writer) Save(event, name string, write func() error) {
	w.mu.Lock()
	w.unsaved[name] = &stateFile{event: event, write: write}
	w.mu.Unlock()
	w.wake.Fire()
}

// snapshot returns the files that are not written yet.
func (w *Writer) snapshot() map[string]*stateFile {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.unsaved)
}

// Run writes files until ctx ends, and retries those that failed. Then it does not wait for
// a write that began. What is left is written by Flush.
func (w *Writer) Run(ctx context.Context) error {
	go func() {
		defer close(w.stopped)
		retry := time.NewTicker(saveRetryInterval)
		defer retry.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-retry.C:
			case <-w.wake:
			}
			w.writeAll(ctx)
		}
	}()
	<-ctx.Done()
	return nil
}

// Flush writes all files that are left after the end of Run within flushTimeout.
func (w *Writer) Flush() {
	written := make(chan struct{})
	go func() {
		defer close(written)
		<-w.stopped
		w.writeAll(context.Background())
	}()
	select {
	case <-written:
	case <-time.After(flushTimeout):
		for name, f := range w.snapshot() {
			w.log.Warn(fmt.Sprintf("cannot save the %s within %v. The next process starts with its earlier content, "+
				"if there is one. Check the disk of the state directory.", name, flushTimeout), slog.String("event", f.event))
		}
	}
}

// writeAll writes each file once, until ctx ends. It logs each error once.
func (w *Writer) writeAll(ctx context.Context) {
	for name, f := range w.snapshot() {
		if ctx.Err() != nil {
			return
		}
		err := f.write()
		if err == nil {
			delete(w.logged, name)
			w.mu.Lock()
			if w.unsaved[name] == f { // no other save replaced it
				delete(w.unsaved, name)
			}
			w.mu.Unlock()
			continue
		}
		if text := err.Error(); text != w.logged[name] {
			w.logged[name] = text
			w.log.Warn("cannot save the "+name+": after a restart it is not available; retrying",
				slog.String("event", f.event), slog.Any("error", err))
		}
	}
}
