// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"context"
	"fmt"
	"os"

	"github.com/coreos/go-systemd/v22/dbus"
)

// HasStopJob reports whether the manager stops this process's unit without starting it again.
// A process that receives SIGTERM cannot detect otherwise whether it will be replaced. It
// queries the system bus.
func HasStopJob(ctx context.Context) (bool, error) {
	bus, err := dbus.NewSystemConnectionContext(ctx)
	if err != nil {
		return false, fmt.Errorf("query systemd for the stop job of this unit: %w", err)
	}
	defer bus.Close()
	unit, err := bus.GetUnitNameByPID(ctx, uint32(os.Getpid())) //nolint:gosec // a process id
	if err != nil {
		return false, fmt.Errorf("query systemd for the unit of this process: %w", err)
	}
	jobs, err := bus.ListJobsContext(ctx)
	if err != nil {
		return false, fmt.Errorf("query systemd for its jobs: %w", err)
	}
	for _, job := range jobs {
		if job.Unit == unit {
			return job.JobType == "stop", nil
		}
	}
	return false, nil // the signal came from elsewhere: Restart= applies
}
