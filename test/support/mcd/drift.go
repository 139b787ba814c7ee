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

	"github.com/coreos/ignition/v2/config/v3_4/types"
	"golang.org/x/sys/unix"
)

// Drift compares the machine with its current config as the drift monitor does at run time
// and the daemon after each boot (pkg/daemon/on_disk_validation.go, validateOnDiskState):
// contents byte by byte and the whole mode of every file, unit and drop-in. Upstream stops
// at the first difference and marks the node Degraded; this function returns all.
func (d *Daemon) Drift(ctx context.Context) error {
	var errs []error
	for _, f := range d.current.ignition.Storage.Files {
		if isWrittenElsewhere(f.Path) {
			continue
		}
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

// isWrittenElsewhere reports which files the monitor ignores
// (pkg/daemon/on_disk_validation.go, getFilesToIgnore).
func isWrittenElsewhere(name string) bool {
	return slices.Contains([]string{
		"/etc/kubernetes/kubelet-ca.crt",
		"/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem",
		"/etc/mco/internal-registry-pull-secret.json",
	}, name)
}

// checkUnit follows pkg/daemon/on_disk_validation.go, checkV3Unit.
func (d *Daemon) checkUnit(ctx context.Context, u types.Unit) error {
	var errs []error
	for _, dropin := range u.Dropins {
		errs = append(errs, d.checkDropin(ctx, u, dropin))
	}
	if !hasContents(u) {
		return errors.Join(errs...)
	}
	name := path.Join(systemdRoot, u.Name)
	if u.Mask != nil && *u.Mask {
		target, err := d.Machine.Run(ctx, "readlink", name)
		if err == nil && strings.TrimSpace(target) != "/dev/null" {
			err = fmt.Errorf("%s is not masked: its target is %s", name, target)
		}
		return errors.Join(append(errs, err)...)
	}
	errs = append(errs, d.checkFile(ctx, name, *u.Contents, defaultMode))
	if u.Enabled != nil && d.Flavour.checksEnablement() {
		errs = append(errs, d.checkEnablement(ctx, u.Name, *u.Enabled))
	}
	return errors.Join(errs...)
}

// checkDropin follows pkg/daemon/on_disk_validation.go, checkV3Dropin: a drop-in without
// contents may be missing.
func (d *Daemon) checkDropin(ctx context.Context, u types.Unit, dropin types.Dropin) error {
	name, content := dropinPath(u, dropin), ""
	if dropin.Contents != nil {
		content = *dropin.Contents
	}
	if content == "" {
		if there, err := exists(d.Machine, name); err != nil || !there {
			return err
		}
	}
	return d.checkFile(ctx, name, content, defaultMode)
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
		return fmt.Errorf("drift: %s has %d bytes that differ from the %d of its MachineConfig", name, len(content), len(want))
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
