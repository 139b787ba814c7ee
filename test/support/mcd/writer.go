// SPDX-License-Identifier: Apache-2.0

// Which units an update writes: all of them in 4.17, and only changed ones in patch releases since February
// 2026. The snapshots show only the first.

package mcd

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_5/types"
)

const systemdRoot = "/etc/systemd/system"

// write changes the host's files to the files of another config (pkg/daemon/update.go,
// updateFiles). Every file is written, changed or not. Which units are written depends on the release,
// and the snapshots show only one of the two behaviours.
func (d *Daemon) write(ctx context.Context, to Rendered, changes difference) error {
	for name, f := range to.files {
		if err := d.Host.WriteFile(name, f.content, f.mode); err != nil {
			return fmt.Errorf("write a file: %w", err)
		}
	}
	units := slices.Concat(changes.added, changes.updated)
	if d.Flavour.writesAllUnits() {
		units = slices.Collect(maps.Values(to.units))
	}
	if err := d.writeUnits(ctx, units); err != nil {
		return err
	}
	return d.deleteStale(ctx, to)
}

// writeUnits follows pkg/daemon/update.go, writeUnits: one enable and one disable command
// for all units, and a preset for each unit without either.
func (d *Daemon) writeUnits(ctx context.Context, units []types.Unit) error {
	var enable, disable []string
	for _, u := range units {
		if err := d.writeUnit(ctx, u); err != nil {
			return fmt.Errorf("write unit %s: %w", u.Name, err)
		}
		switch {
		case u.Enabled == nil:
			if err := d.systemctl(ctx, "preset", u.Name); err != nil {
				return err
			}
		case *u.Enabled:
			enable = append(enable, u.Name)
		default:
			disable = append(disable, u.Name)
		}
	}
	if err := d.systemctl(ctx, "enable", enable...); err != nil {
		return err
	}
	return d.systemctl(ctx, "disable", disable...)
}

// writeUnit follows pkg/daemon/file_writers.go, writeUnit. An enabled unit is disabled first,
// because the new text can contain another WantedBy= (OCPBUGS-33694).
func (d *Daemon) writeUnit(ctx context.Context, u types.Unit) error {
	for _, dropin := range u.Dropins {
		if err := d.Host.WriteFile(dropinPath(u, dropin), *dropin.Contents, defaultMode); err != nil {
			return fmt.Errorf("write a drop-in: %w", err)
		}
	}
	// is-enabled exits nonzero unless the unit is enabled; its output decides.
	out, err := d.Host.Run(ctx, "systemctl", "is-enabled", u.Name)
	if err == nil && strings.TrimSpace(out) == "enabled" {
		if err := d.systemctl(ctx, "disable", u.Name); err != nil {
			return err
		}
	}
	return d.Host.WriteFile(path.Join(systemdRoot, u.Name), *u.Contents, defaultMode)
}

func (d *Daemon) systemctl(ctx context.Context, verb string, units ...string) error {
	if len(units) == 0 {
		return nil
	}
	if _, err := d.Host.Run(ctx, "systemctl", append([]string{verb}, units...)...); err != nil {
		return fmt.Errorf("%s units: %w", verb, err)
	}
	return nil
}

// deleteStale removes files of the current config that the new one lacks (pkg/daemon/update.go,
// deleteStaleData). A unit gets its preset while its file exists: with RHCOS's "disable *"
// that removes its links.
func (d *Daemon) deleteStale(ctx context.Context, to Rendered) error {
	var stale []string
	for name := range d.current.files {
		if _, stays := to.files[name]; !stays {
			stale = append(stale, name)
		}
	}
	newDropins := dropinPaths(to)
	for _, name := range dropinPaths(d.current) {
		if !slices.Contains(newDropins, name) {
			stale = append(stale, name)
		}
	}
	for name := range d.current.units {
		if _, stays := to.units[name]; !stays {
			if err := d.systemctl(ctx, "preset", name); err != nil {
				return err
			}
			stale = append(stale, path.Join(systemdRoot, name))
		}
	}
	for _, name := range stale {
		if err := d.Host.RemoveFile(name); err != nil {
			return fmt.Errorf("remove a file: %w", err)
		}
	}
	return nil
}

func dropinPath(u types.Unit, d types.Dropin) string {
	return path.Join(systemdRoot, u.Name+".d", d.Name)
}

func dropinPaths(r Rendered) []string {
	var paths []string
	for _, u := range r.units {
		for _, d := range u.Dropins {
			paths = append(paths, dropinPath(u, d))
		}
	}
	return paths
}
