// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// waitsVariable names a file to which each wait is appended: seconds, a tab, and the
// awaited condition. test/cmd/suites adds them up.
const waitsVariable = "HTTP01_TEST_WAITS"

// shortest is the shortest recorded wait.
const shortest = 10 * time.Millisecond

const (
	// eventuallyTimeout is the timeout of Eventually. It is much longer than any condition
	// takes, so that only real failures reach it, also on a busy machine.
	eventuallyTimeout = 45 * time.Second
	pause             = 20 * time.Millisecond
)

// finalError marks an error that further attempts do not change.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// final ends the attempts of Eventually.
func final(err error) error { return finalError{err} }

// Eventually calls try until it returns nil. It stops when ctx ends or after 45 s with an
// error that has the awaited condition and the last error of try.
func Eventually(ctx context.Context, what string, try func(context.Context) error) error {
	return Within(ctx, eventuallyTimeout, what, try)
}

// Within is Eventually with another limit, for conditions that take longer.
func Within(ctx context.Context, limit time.Duration, what string, try func(context.Context) error) error {
	defer RecordWait(what, time.Now())
	ctx, cancel := context.WithTimeout(ctx, limit)
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

// RecordWait appends a wait that began at begin to the file of waits, if there is one.
// Write errors are ignored, because the file only feeds a table of times.
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
