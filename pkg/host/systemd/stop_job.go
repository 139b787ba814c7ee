// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"context"
	"fmt"
	"os"

	"github.com/coreos/go-systemd/v22/dbus"
)

// HasStopJob reports whether the manager stops this process's unit for good: a
// process that is told to end cannot see otherwise whether another will follow.
// It asks over the system bus.
func HasStopJob(ctx context.Context) (bool, error) {
	bus, err := dbus.NewSystemConnectionContext(ctx)
	if err != nil {
		return false, fmt.Errorf("ask systemd why this process is to end: %w", err)
	}
	defer bus.Close()
	unit, err := bus.GetUnitNameByPID(ctx, uint32(os.Getpid())) //nolint:gosec // a process id
	if err != nil {
		return false, fmt.Errorf("ask systemd for the unit of this process: %w", err)
	}
	jobs, err := bus.ListJobsContext(ctx)
	if err != nil {
		return false, fmt.Errorf("ask systemd for its jobs: %w", err)
	}
	for _, job := range jobs {
		if job.Unit == unit {
			return job.JobType == "stop", nil
		}
	}
	return false, nil // somebody has sent a signal: Restart= decides
}
