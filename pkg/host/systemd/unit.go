// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/coreos/go-systemd/v22/dbus"
)

// Unit is the state of a service, as the manager reports it.
type Unit struct {
	LoadState       string   // loaded, not-found, masked, …
	ActiveState     string   // active, inactive, activating, failed, …
	UnitFileState   string   // enabled, disabled, …; empty when there is no file
	Result          string   // of the last run: success, exit-code, signal, …
	ExecMainCode    int      // how the main process ended: CLD_EXITED and others, 0 while it runs
	ExecMainStatus  int      // exit code or signal number
	MainPID         uint32   // 0 if no main process runs
	Restarts        uint32   // by Restart=
	ConditionFailed bool     // a condition of the unit failed, such as ConditionFileIsExecutable=
	ExecPath        string   // of the program
	File            string   // of the unit
	DropIns         []string // files that change the unit
	NeedReload      bool     // a file changed since the manager read it
}

// QueryUnit queries a service over the system bus.
func QueryUnit(ctx context.Context, name string) (Unit, error) {
	m, err := OpenManager(ctx)
	if err != nil {
		return Unit{}, err
	}
	defer m.Close()
	return m.Unit(ctx, name)
}

// parseUnit reads properties (org.freedesktop.systemd1(5)). A property that an older manager
// does not know keeps its zero value.
func parseUnit(p map[string]any) Unit {
	u := Unit{
		LoadState: property[string](p, "LoadState"), ActiveState: property[string](p, "ActiveState"),
		UnitFileState: property[string](p, "UnitFileState"), Result: property[string](p, "Result"),
		ExecMainCode: int(property[int32](p, "ExecMainCode")), ExecMainStatus: int(property[int32](p, "ExecMainStatus")),
		MainPID: property[uint32](p, "MainPID"), Restarts: property[uint32](p, "NRestarts"),
		DropIns: property[[]string](p, "DropInPaths"), File: property[string](p, "FragmentPath"),
		NeedReload: property[bool](p, "NeedDaemonReload"),
	}
	// A condition that was never checked is also reported as not met.
	u.ConditionFailed = property[uint64](p, "ConditionTimestamp") != 0 && !property[bool](p, "ConditionResult")
	if starts := property[[][]any](p, "ExecStart"); len(starts) > 0 && len(starts[0]) > 0 {
		u.ExecPath, _ = starts[0][0].(string)
	}
	return u
}

func property[T any](p map[string]any, name string) T {
	v, _ := p[name].(T)
	return v
}

// HasStopJob reports whether the manager stops this process's unit without starting it again.
// A process that receives SIGTERM cannot detect otherwise whether it will be replaced. It
// queries the system bus.
func HasStopJob(ctx context.Context) (bool, error) {
	m, err := OpenManager(ctx)
	if err != nil {
		return false, err
	}
	defer m.Close()
	unit, err := m.bus.GetUnitNameByPID(ctx, uint32(os.Getpid())) //nolint:gosec // a process id
	if err != nil {
		return false, fmt.Errorf("query systemd for the unit of this process: %w", err)
	}
	jobs, err := m.bus.ListJobsContext(ctx)
	if err != nil {
		return false, fmt.Errorf("query systemd for its jobs: %w", err)
	}
	// Without a job, the signal came from elsewhere: Restart= applies.
	return slices.ContainsFunc(jobs, func(j dbus.JobStatus) bool { return j.Unit == unit && j.JobType == "stop" }), nil
}
