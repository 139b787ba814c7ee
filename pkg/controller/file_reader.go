// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"time"
)

const (
	// caReadInterval is how soon a change is seen of which no hint tells.
	caReadInterval = 30 * time.Second
	// fileDebounce bounds how long a stream of events holds hints back: what is
	// trusted has to be in force within a second of its change, and settles besides.
	fileDebounce = 250 * time.Millisecond
)

// applyDeferredEgress calls look, until ctx ends, when a hint comes that files may have changed,
// now and then, and when the last look has asked for it. wake has the last one's
// wishes heard that was made elsewhere. The fallback is the interval of the looks
// that no hint causes.
func readOnChange(ctx context.Context, fallback time.Duration, hints, wake <-chan struct{}, look func(now time.Time, hinted bool) (again time.Duration)) error {
	tick := time.NewTicker(fallback)
	defer tick.Stop()
	soon := time.NewTimer(fallback)
	defer soon.Stop()
	for {
		hinted := false
		select {
		case <-ctx.Done():
			return nil
		case <-hints:
			hinted = true
		case <-wake:
		case <-tick.C:
		case <-soon.C:
		}
		if again := look(time.Now(), hinted); again > 0 {
			soon.Reset(min(again, fallback))
		} else {
			soon.Stop()
		}
	}
}
