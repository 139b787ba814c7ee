// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"log/slog"
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

	mu      sync.Mutex
	names   []string // in the order of their first save
	pending map[string]stateFile
	writing *unsavedFile // whose write has begun

	// By name; owned by the goroutine of run, and by that of flush after it:
	failed     map[string]stateFile // the last write failed
	lastErrors map[string]string
}

// stateFile is what a file must contain.
type stateFile struct {
	event string // of the journal, if the write fails
	write func() error
}

// unsavedFile is a file that was not written before the end of the service.
type unsavedFile struct{ name, event string }

func newStateWriter(log *slog.Logger) *stateWriter {
	return &stateWriter{
		log: log, wake: newTrigger(), stopped: make(chan struct{}),
		pending: make(map[string]stateFile), failed: make(map[string]stateFile), lastErrors: make(map[string]string),
	}
}

// save has a file written later. A write of the same name that has not begun is
// replaced. It never blocks.
func (w *stateWriter) save(event, name string, write func() error) {
	w.add(name, stateFile{event, write}, true)
	w.wake.fire()
}

func (w *stateWriter) add(name string, f stateFile, replace bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, queued := w.pending[name]
	if !queued {
		w.names = append(w.names, name)
	}
	if !queued || replace {
		w.pending[name] = f
	}
}

// next takes the oldest pending write.
func (w *stateWriter) next() (name string, f stateFile, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.names) == 0 {
		return "", f, false
	}
	name = w.names[0]
	f = w.pending[name]
	w.names = w.names[1:]
	delete(w.pending, name)
	w.writing = &unsavedFile{name, f.event}
	return name, f, true
}

func (w *stateWriter) written() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writing = nil
}

// unsaved returns the files that are not written yet, the oldest first.
func (w *stateWriter) unsaved() []unsavedFile {
	w.mu.Lock()
	defer w.mu.Unlock()
	var files []unsavedFile
	if w.writing != nil {
		files = append(files, *w.writing)
	}
	for _, name := range w.names {
		files = append(files, unsavedFile{name, w.pending[name].event})
	}
	return files
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
			w.retryFailed()
		case <-w.wake:
		}
		w.writeAll(ctx)
	}
}

// retryFailed has the files written again whose last write failed.
func (w *stateWriter) retryFailed() {
	for name, f := range w.failed {
		w.add(name, f, false)
	}
}

// flush writes all pending files after the end of run, and once more those whose last write
// failed, within flushStateTimeout.
func (w *stateWriter) flush() {
	written := make(chan struct{})
	go func() {
		defer close(written)
		<-w.stopped
		w.retryFailed()
		w.writeAll(context.Background())
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

// writeAll writes all pending files until ctx ends. It logs each error once and adds its file
// to failed.
func (w *stateWriter) writeAll(ctx context.Context) {
	for ctx.Err() == nil {
		name, f, more := w.next()
		if !more {
			return
		}
		err := f.write()
		w.written()
		delete(w.failed, name)
		if err == nil {
			delete(w.lastErrors, name)
			continue
		}
		w.failed[name] = f
		if text := err.Error(); text != w.lastErrors[name] {
			w.lastErrors[name] = text
			w.log.Warn("cannot save the "+name+": after a restart it is not available; retrying", slog.String("event", f.event), slog.Any("error", err))
		}
	}
}
