// SPDX-License-Identifier: Apache-2.0

package mcd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_5/types"
	"golang.org/x/sys/unix"
)

// Drift compares the machine with its current config as the drift monitor does at run time
// and the daemon after each boot (pkg/daemon/on_disk_validation.go, validateOnDiskState):
// contents byte by byte and the whole mode of every file, unit and drop-in. Upstream stops
// at the first difference and marks the node Degraded; this function returns all.
func (d *Daemon) Drift(ctx context.Context) error {
	var errs []error
	for _, f := range d.current.ignition.Storage.Files {
		content, err := Contents(f)
		if err == nil {
			err = d.checkFile(ctx, f.Path, content, fileMode(f))
		}
		errs = append(errs, err)
	}
	for _, u := range d.current.ignition.Systemd.Units {
		errs = append(errs, d.checkUnit(ctx, u))
	}
	return errors.Join(errs...)
}

// checkUnit follows pkg/daemon/on_disk_validation.go, checkV3Unit.
func (d *Daemon) checkUnit(ctx context.Context, u types.Unit) error {
	var errs []error
	for _, dropin := range u.Dropins {
		errs = append(errs, d.checkFile(ctx, dropinPath(u, dropin), *dropin.Contents, defaultMode))
	}
	errs = append(errs, d.checkFile(ctx, path.Join(systemdRoot, u.Name), *u.Contents, defaultMode))
	if u.Enabled != nil && d.Flavour.checksEnablement() {
		errs = append(errs, d.checkEnablement(ctx, u.Name, *u.Enabled))
	}
	return errors.Join(errs...)
}

func (d *Daemon) checkFile(ctx context.Context, name, want string, mode fs.FileMode) error {
	raw, err := rawMode(ctx, d.Machine, name)
	if err != nil {
		return fmt.Errorf("drift: %w", err)
	}
	if wantRaw := uint64(unix.S_IFREG) | uint64(mode); raw != wantRaw {
		return fmt.Errorf("drift: %s has mode %#o, not %#o", name, raw, wantRaw)
	}
	content, err := d.Machine.ReadFile(name)
	if err != nil {
		return fmt.Errorf("drift: %w", err)
	}
	if content != want {
		return fmt.Errorf("drift: %s has %d bytes that differ from the %d of its MachineConfig",
			name, len(content), len(want))
	}
	return nil
}

// checkEnablement follows pkg/daemon/on_disk_validation.go, checkUnitEnabled: it checks
// only some states.
func (d *Daemon) checkEnablement(ctx context.Context, unit string, enabled bool) error {
	// It exits nonzero for units that are not enabled; its output decides.
	out, _ := d.Machine.Run(ctx, "systemctl", "is-enabled", unit)
	state := strings.TrimSpace(out)
	wrong := []string{"enabled", "enabled-runtime"}
	if enabled {
		wrong = []string{"disabled", "masked", "masked-runtime", "not-found"}
	}
	if slices.Contains(wrong, state) {
		return fmt.Errorf("drift: unit %s is %s, but enabled is %t in its MachineConfig", unit, state, enabled)
	}
	return nil
}
