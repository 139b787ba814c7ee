// SPDX-License-Identifier: Apache-2.0

package mcd

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_5/types"
)

const systemdRoot = "/etc/systemd/system"

// writer writes the files and units of one rendered config to a machine.
type writer struct {
	machine Machine
	notes   []string // failures that upstream logs and ignores
}

// update changes the machine's files to the files of another config (pkg/daemon/update.go,
// updateFiles). Every file is written, changed or not.
func (w *writer) update(ctx context.Context, from, to Rendered, units []types.Unit) error {
	for _, f := range to.ignition.Storage.Files {
		if err := w.writeFile(f); err != nil {
			return err
		}
	}
	if err := w.writeUnits(ctx, units); err != nil {
		return err
	}
	return w.deleteStale(ctx, from, to)
}

// writeFile follows pkg/daemon/file_writers.go, writeFiles.
func (w *writer) writeFile(f types.File) error {
	content, err := Contents(f)
	if err != nil {
		return err
	}
	// The OS image contains no file at the path, so that removal deletes ours
	// (pkg/daemon/file_writers.go, createOrigFile).
	if err := w.machine.WriteFile(stampName(f.Path), "", defaultMode); err != nil {
		return err
	}
	return w.machine.WriteFile(f.Path, content, fileMode(f))
}

func stampName(name string) string {
	return "/etc/machine-config-daemon/noorig" + name + ".mcdnoorig"
}

// writeUnits follows pkg/daemon/update.go, writeUnits: one enable and one disable command
// for all units, and a preset for each unit without either.
func (w *writer) writeUnits(ctx context.Context, units []types.Unit) error {
	var enable, disable []string
	for _, u := range units {
		if err := w.writeUnit(ctx, u); err != nil {
			return fmt.Errorf("write unit %s: %w", u.Name, err)
		}
		switch {
		case u.Enabled == nil:
			w.preset(ctx, u.Name)
		case *u.Enabled:
			enable = append(enable, u.Name)
		default:
			disable = append(disable, u.Name)
		}
	}
	if err := w.systemctl(ctx, "enable", enable); err != nil {
		return err
	}
	return w.systemctl(ctx, "disable", disable)
}

// writeUnit follows pkg/daemon/file_writers.go, writeUnit. An enabled unit is disabled first,
// because the new text can contain another WantedBy= (OCPBUGS-33694).
func (w *writer) writeUnit(ctx context.Context, u types.Unit) error {
	for _, d := range u.Dropins {
		if err := w.machine.WriteFile(dropinPath(u, d), *d.Contents, defaultMode); err != nil {
			return err
		}
	}
	// is-enabled exits nonzero unless the unit is enabled; its output decides.
	out, err := w.machine.Run(ctx, "systemctl", "is-enabled", u.Name)
	if err == nil && strings.TrimSpace(out) == "enabled" {
		if err := w.systemctl(ctx, "disable", []string{u.Name}); err != nil {
			return err
		}
	}
	return w.machine.WriteFile(path.Join(systemdRoot, u.Name), *u.Contents, defaultMode)
}

func (w *writer) systemctl(ctx context.Context, verb string, units []string) error {
	if len(units) == 0 {
		return nil
	}
	if _, err := w.machine.Run(ctx, "systemctl", append([]string{verb}, units...)...); err != nil {
		return fmt.Errorf("%s units: %w", verb, err)
	}
	return nil
}

// preset ignores errors, because a unit can be a drop-in alone (pkg/daemon/update.go,
// presetUnit and its callers).
func (w *writer) preset(ctx context.Context, unit string) {
	if err := w.systemctl(ctx, "preset", []string{unit}); err != nil {
		w.notes = append(w.notes, err.Error())
	}
}

// deleteStale removes files of the old config that the new one lacks (pkg/daemon/update.go,
// deleteStaleData). A unit gets its preset while its file exists: with RHCOS's "disable *"
// that removes its links.
func (w *writer) deleteStale(ctx context.Context, from, to Rendered) error {
	newFiles, newUnits, newDropins := filesByPath(to), unitsByName(to), dropinPaths(to)
	for _, f := range from.ignition.Storage.Files {
		if _, stays := newFiles[f.Path]; stays {
			continue
		}
		for _, name := range []string{stampName(f.Path), f.Path} {
			if err := w.machine.RemoveFile(name); err != nil {
				return err
			}
		}
	}
	for _, u := range from.ignition.Systemd.Units {
		for _, d := range u.Dropins {
			if name := dropinPath(u, d); !slices.Contains(newDropins, name) {
				if err := w.machine.RemoveFile(name); err != nil {
					return err
				}
			}
		}
		if _, stays := newUnits[u.Name]; stays {
			continue
		}
		w.preset(ctx, u.Name)
		if err := w.machine.RemoveFile(path.Join(systemdRoot, u.Name)); err != nil {
			return err
		}
	}
	return nil
}

func dropinPath(u types.Unit, d types.Dropin) string {
	return path.Join(systemdRoot, u.Name+".d", d.Name)
}

func dropinPaths(r Rendered) []string {
	var paths []string
	for _, u := range r.ignition.Systemd.Units {
		for _, d := range u.Dropins {
			paths = append(paths, dropinPath(u, d))
		}
	}
	return paths
}
