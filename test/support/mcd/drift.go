// SPDX-License-Identifier: Apache-2.0

// The drift monitor of the newest patch releases, which compares the enablement of units. The snapshots do not.

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

// drift compares the host with its current config as the drift monitor does at run time
// and the daemon after each boot (pkg/daemon/on_disk_validation.go, validateOnDiskState):
// contents byte by byte and the whole mode of every file, unit and drop-in. The snapshots do not
// compare the enablement of units, as the newest patch releases do.
func (d *Daemon) drift(ctx context.Context) error {
	var errs []error
	for name, f := range d.current.files {
		errs = append(errs, d.checkFile(ctx, name, f.content, f.mode))
	}
	for _, u := range d.current.units {
		for _, dropin := range u.Dropins {
			errs = append(errs, d.checkFile(ctx, dropinPath(u, dropin), *dropin.Contents, defaultMode))
		}
		errs = append(errs, d.checkFile(ctx, path.Join(systemdRoot, u.Name), *u.Contents, defaultMode))
		if u.Enabled != nil && d.Flavour.checksEnablement() {
			errs = append(errs, d.checkEnablement(ctx, u))
		}
	}
	return errors.Join(errs...)
}

func (d *Daemon) checkFile(ctx context.Context, name, want string, mode fs.FileMode) error {
	// The type and the mode, without following links (inode(7)).
	got, err := d.Host.Run(ctx, "stat", "--format=%f", name)
	if err != nil {
		return fmt.Errorf("drift: %w", err)
	}
	if raw := fmt.Sprintf("%x\n", unix.S_IFREG|uint32(mode)); got != raw {
		return fmt.Errorf("drift: %s has mode %q, not %q", name, got, raw)
	}
	content, err := d.Host.ReadFile(name)
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
func (d *Daemon) checkEnablement(ctx context.Context, u types.Unit) error {
	// It exits nonzero for units that are not enabled; its output decides.
	out, _ := d.Host.Run(ctx, "systemctl", "is-enabled", u.Name)
	wrong := []string{"enabled", "enabled-runtime"}
	if *u.Enabled {
		wrong = []string{"disabled", "masked", "masked-runtime", "not-found"}
	}
	if state := strings.TrimSpace(out); slices.Contains(wrong, state) {
		return fmt.Errorf("drift: unit %s is %s, but enabled is %t in its MachineConfig", u.Name, state, *u.Enabled)
	}
	return nil
}
