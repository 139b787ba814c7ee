// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// saveRetryInterval is the delay after a write that has failed.
	saveRetryInterval = 30 * time.Second
	// flushStateTimeout is how long writes begin at the end of the service. The rest of an
	// orderly end takes some 8 s at most, and TimeoutStopSec of the unit is 15 s. The kernel
	// ends a process only after its fsync in progress.
	flushStateTimeout = 2 * time.Second
)

// stateWriter writes the files of the state directory in a goroutine of its own: an
// fsync can take seconds, and no other goroutine waits for one. Each write has its data
// with it and reads nothing that changes.
//
// A file that is not written before the end of the service keeps its earlier content. The
// next process starts from it: an older configuration or egress decision. It is in force only
// while the present input is rejected.
type stateWriter struct {
	log     *slog.Logger
	wake    trigger
	stopped chan struct{} // closed when the goroutine of run writes nothing any more

	mu    sync.Mutex
	queue []*stateFile // that are not written yet, in the order of their first save

	lastErrors map[string]string // by name; owned by the goroutine of run, and by that of flush after it
}

// stateFile is what a file must contain.
type stateFile struct {
	name   string
	event  string // of the journal, if the write fails
	write  func() error
	failed bool // the last write failed; owned as lastErrors
}

func newStateWriter(log *slog.Logger) *stateWriter {
	return &stateWriter{log: log, wake: newTrigger(), stopped: make(chan struct{}), lastErrors: make(map[string]string)}
}

// save has a file written later. A write of the same name that has not begun is
// replaced. It never blocks.
func (w *stateWriter) save(event, name string, write func() error) {
	next := &stateFile{name: name, event: event, write: write}
	w.mu.Lock()
	if i := slices.IndexFunc(w.queue, func(f *stateFile) bool { return f.name == name }); i >= 0 {
		w.queue[i] = next
	} else {
		w.queue = append(w.queue, next)
	}
	w.mu.Unlock()
	w.wake.fire()
}

// unsaved returns the files that are not written yet, the oldest first.
func (w *stateWriter) unsaved() []*stateFile {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.queue)
}

// remove removes a file that is written, unless another save has replaced it.
func (w *stateWriter) remove(written *stateFile) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = slices.DeleteFunc(w.queue, func(f *stateFile) bool { return f == written })
}

// run writes files until ctx ends, and retries those that failed. Then it does not wait for
// a write that has begun. What is left is written by flush.
func (w *stateWriter) run(ctx context.Context) error {
	go w.writeUntil(ctx)
	<-ctx.Done()
	return nil
}

func (w *stateWriter) writeUntil(ctx context.Context) {
	defer close(w.stopped)
	retry := time.NewTicker(saveRetryInterval)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-retry.C:
			w.writeAll(ctx, true)
		case <-w.wake:
			w.writeAll(ctx, false)
		}
	}
}

// flush writes all files that are left after the end of run, and once more those whose last
// write failed, within flushStateTimeout.
func (w *stateWriter) flush() {
	written := make(chan struct{})
	go func() {
		defer close(written)
		<-w.stopped
		w.writeAll(context.Background(), true)
	}()
	select {
	case <-written:
	case <-time.After(flushStateTimeout):
		for _, f := range w.unsaved() {
			w.log.Warn(fmt.Sprintf("cannot save the %s within %v. The next process starts with its earlier content, "+
				"if there is one. Check the disk of the state directory.", f.name, flushStateTimeout), slog.String("event", f.event))
		}
	}
}

// writeAll writes the files until ctx ends, with retry also those whose last write failed. It
// logs each error once.
func (w *stateWriter) writeAll(ctx context.Context, retry bool) {
	for _, f := range w.unsaved() {
		if ctx.Err() != nil {
			return
		}
		// Another save can have replaced it.
		if f.failed && !retry || !slices.Contains(w.unsaved(), f) {
			continue
		}
		err := f.write()
		if f.failed = err != nil; !f.failed {
			delete(w.lastErrors, f.name)
			w.remove(f)
			continue
		}
		if text := err.Error(); text != w.lastErrors[f.name] {
			w.lastErrors[f.name] = text
			w.log.Warn("cannot save the "+f.name+": after a restart it is not available; retrying",
				slog.String("event", f.event), slog.Any("error", err))
		}
	}
}
