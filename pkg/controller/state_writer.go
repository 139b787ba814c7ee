// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// saveRetryInterval is the delay after a write that has failed.
const saveRetryInterval = 30 * time.Second

// saveFunc has a file of the state directory written later, see stateWriter.save.
type saveFunc func(event, name string, write func() error)

// stateWriter writes the files of the state directory in a goroutine of its own: an
// fsync can take seconds, and no other goroutine waits for one. Each write has its data
// with it and reads nothing that changes.
type stateWriter struct {
	log  *slog.Logger
	wake trigger

	mu      sync.Mutex
	names   []string // in the order of their first save
	pending map[string]stateFile

	lastErrors map[string]string // by name; owned by run, and by flush after that
}

// stateFile is what a file must contain.
type stateFile struct {
	event string // of the journal, if the write fails
	write func() error
}

func newStateWriter(log *slog.Logger) *stateWriter {
	return &stateWriter{log: log, wake: newTrigger(), pending: make(map[string]stateFile), lastErrors: make(map[string]string)}
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
	return name, f, true
}

// run writes files until ctx ends, and retries those that failed. What is saved after that
// is written by flush.
func (w *stateWriter) run(ctx context.Context) error {
	retry := time.NewTicker(saveRetryInterval)
	defer retry.Stop()
	failed := make(map[string]stateFile)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-retry.C:
			for name, f := range failed {
				w.add(name, f, false)
			}
		case <-w.wake:
		}
		w.writeAll(failed)
	}
}

// flush writes all pending files.
func (w *stateWriter) flush() { w.writeAll(make(map[string]stateFile)) }

// writeAll writes all pending files. It logs each error once and adds its file to failed.
func (w *stateWriter) writeAll(failed map[string]stateFile) {
	for name, f, more := w.next(); more; name, f, more = w.next() {
		err := f.write()
		delete(failed, name)
		if err == nil {
			delete(w.lastErrors, name)
			continue
		}
		failed[name] = f
		if text := err.Error(); text != w.lastErrors[name] {
			w.lastErrors[name] = text
			w.log.Warn("cannot save the "+name+": after a restart it is not available; retrying", slog.String("event", f.event), slog.Any("error", err))
		}
	}
}
