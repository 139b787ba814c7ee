// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"time"
)

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

// Eventually calls try until it returns nil. It stops when ctx ends or after 45 s with an error
// that contains the awaited condition and the last error of try.
func Eventually(ctx context.Context, what string, try func(context.Context) error) error {
	return Within(ctx, eventuallyTimeout, what, try)
}

// Within is Eventually with another limit, for conditions that take longer.
func Within(ctx context.Context, limit time.Duration, what string, try func(context.Context) error) error {
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
