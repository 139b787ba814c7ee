// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/conntrack"
)

// checkConntrack checks whether the connection tracking table drops packets or is nearly
// full.
func checkConntrack(ctx context.Context, _ *host) Result {
	before, err := conntrack.Read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return okResult("the kernel has no connection tracking table yet")
	case err != nil:
		return skippedResult("%v", err)
	}
	timer := time.NewTimer(conntrack.SampleTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	after, err := conntrack.Read()
	if err != nil {
		return skippedResult("%v", err)
	}
	matches, text := conntrack.Judge(before, after)
	return findingsResult(matches, "%s", text)
}
