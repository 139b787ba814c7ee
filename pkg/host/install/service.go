// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
)

const (
	service = "http01-proxyd.service"
	timer   = "http01-proxyd-install.timer"

	maxUnit = 1 << 20

	jobTimeout   = 3 * time.Minute // start and stop of the service, by its unit
	pollInterval = 200 * time.Millisecond
)

// manager is systemd.
type manager interface {
	Unit(ctx context.Context, name string) (systemd.Unit, error)
	Reload(ctx context.Context) error
	Restart(ctx context.Context, name string) (result string, err error)
	Stop(ctx context.Context, name string) error
	QueueStop(ctx context.Context, name string) error
}

// definition is a checksum of the unit and the binary, by its checksum, that the service would be
// started from.
func definition(u systemd.Unit, binary string) (string, error) {
	h := sha256.New()
	for _, path := range append([]string{u.File}, u.DropIns...) {
		text, err := textfile.Read(path, maxUnit)
		if err != nil {
			return "", fmt.Errorf("read the unit of the service: %w", err)
		}
		fmt.Fprintf(h, "%s %d\n%s", path, len(text), text)
	}
	fmt.Fprintln(h, binary)
	return hex.EncodeToString(h.Sum(nil)), nil
}

// running is the checksum of the binary that an active service runs, also after its file was
// replaced. It covers an administrator who copied a binary and restarted the service. It is
// empty if the service is not active, or if the checksum cannot be computed: the service is
// then restarted.
func (p paths) running(u systemd.Unit) string {
	if u.ActiveState != "active" || u.MainPID == 0 {
		return ""
	}
	sum, err := checksum(filepath.Join(p.proc, strconv.FormatUint(uint64(u.MainPID), 10), "exe"))
	if err != nil {
		return ""
	}
	return sum
}

// isDisabled reports whether the unit was disabled or masked.
func isDisabled(u systemd.Unit) bool {
	return u.LoadState == "masked" || (u.LoadState == "loaded" && u.UnitFileState == "disabled")
}

// loaded returns the unit of the service, of the current files.
func (r *run) loaded(ctx context.Context) (systemd.Unit, error) {
	u, err := r.manager.Unit(ctx, service)
	if err != nil || !u.NeedReload {
		return u, err
	}
	if err := r.manager.Reload(ctx); err != nil {
		return u, err
	}
	return r.manager.Unit(ctx, service)
}

// settled waits while the service is disabled, for at most the settle time. The machine-config-daemon
// of 4.17 disables each unit before it rewrites it, and enables all units at the end of the update.
func (r *run) settled(ctx context.Context) (systemd.Unit, error) {
	u, err := r.loaded(ctx)
	if err != nil || !isDisabled(u) {
		return u, err
	}
	r.log(notice, fmt.Sprintf("%s is disabled: waiting up to %v, in case an update enables it again", service, r.settle))
	ctx, cancel := context.WithTimeout(ctx, r.settle)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for err == nil && isDisabled(u) {
		select {
		case <-tick.C:
			u, err = r.loaded(context.WithoutCancel(ctx))
		case <-ctx.Done():
			return u, nil
		}
	}
	return u, err
}

// Result is how a start of the service ended.
type Result int

// The results.
const (
	Ready    Result = iota
	NotReady        // it cannot become ready
	Stopped         // it was stopped before it became ready
	Disabled        // it is disabled, and stays so
)

// start makes the service run the installed binary and units. It restarts the service at most once,
// and only if these changed.
func (r *run) start(ctx context.Context, text string) (Result, error) {
	u, err := r.settled(ctx)
	switch {
	case err != nil:
		return 0, err
	case isDisabled(u):
		return Disabled, r.manager.Stop(ctx, service)
	case u.LoadState != "loaded":
		return 0, fmt.Errorf("%s is not installed on this host: apply the whole MachineConfig, or install systemd/%s",
			service, service)
	}
	binary, err := checksum(r.paths.program)
	if err != nil {
		return 0, err
	}
	current, err := definition(u, binary)
	if err != nil {
		return 0, err
	}
	if binary != "" && binary == r.paths.running(u) && current == r.state.Boot.Started {
		return Ready, nil
	}
	r.log(info, text)
	r.state.Boot.Started = ""
	if err := r.state.save(r.paths.state); err != nil {
		return 0, err
	}
	result, err := r.restart(ctx)
	if result == Ready {
		r.state.Boot.Started = current
	}
	return result, err
}

// restart restarts the service and returns Ready, NotReady or Stopped: a job that was canceled was
// replaced by one that stops the service (JobRemoved of org.freedesktop.systemd1(5)).
func (r *run) restart(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, jobTimeout)
	defer cancel()
	job, err := r.manager.Restart(ctx, service)
	switch {
	case err != nil:
		return NotReady, err
	case job == "done":
		return Ready, nil
	case job == "canceled":
		return Stopped, nil
	}
	return NotReady, nil
}
