// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// patience is how long Eventually goes on trying: far more than anything
	// here takes, so that only a real failure meets it, also on a machine that
	// does much else.
	patience = 45 * time.Second
	pause    = 20 * time.Millisecond
)

// finalError marks an answer that further tries won't change.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// final makes Eventually give up at once.
func final(err error) error { return finalError{err} }

// Eventually calls try until it returns nil, and gives up when ctx ends or
// after 45 s; the error then says what was awaited and what try said last.
func Eventually(ctx context.Context, what string, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
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
