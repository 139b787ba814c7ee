// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// waitsVariable names a file to which each wait is appended: seconds, a tab, and
// what was awaited. test/cmd/suites adds them up.
const waitsVariable = "HTTP01_TEST_WAITS"

// shortest is the shortest wait that is noted.
const shortest = 10 * time.Millisecond

const (
	// eventuallyTimeout is how long Eventually goes on trying: far more than anything
	// here takes, so that only a real failure meets it, also on a machine that
	// does much else.
	eventuallyTimeout = 45 * time.Second
	pause             = 20 * time.Millisecond
)

// finalError marks an answer that further tries won't change.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// final makes Eventually give up at once.
func final(err error) error { return finalError{err} }

// Eventually calls try until it returns nil, and gives up when ctx ends or
// after 45 s; the error then says what was awaited and what try said last.
func Eventually(ctx context.Context, what string, try func(context.Context) error) error {
	defer RecordWait(what, time.Now())
	ctx, cancel := context.WithTimeout(ctx, eventuallyTimeout)
	defer cancel()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	var last error
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		var stop finalError
		if errors.As(err, &stop) {
			return fmt.Errorf("wait for %s: %w", what, stop.error)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w, last: %w", what, context.Cause(ctx), last)
		}
	}
}

// RecordWait appends a wait that began at a time to the file of waits, when there is one. A note that
// cannot be written changes a table of times and no test, so its error is dropped.
func RecordWait(what string, begin time.Time) {
	took, path := time.Since(begin), os.Getenv(waitsVariable)
	if path == "" || took < shortest {
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	_, _ = fmt.Fprintf(f, "%.3f\t%s\n", took.Seconds(), what)
}
