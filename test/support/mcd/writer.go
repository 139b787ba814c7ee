// SPDX-License-Identifier: Apache-2.0

package mcd

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_4/types"
)

const systemdRoot = "/etc/systemd/system"

// writer writes the files and units of one rendered config to a machine.
type writer struct {
	machine Machine
	flavour Flavour
	notes   []string // failures that upstream logs and ignores
}

// update changes the machine's files to those of another config (pkg/daemon/update.go,
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
	for _, owner := range []struct {
		what string
		id   *int
		name *string
	}{{"user", f.User.ID, f.User.Name}, {"group", f.Group.ID, f.Group.Name}} {
		if (owner.id != nil && *owner.id != 0) || (owner.name != nil && *owner.name != "" && *owner.name != "root") {
			return fmt.Errorf("write %s: a %s other than root is not supported here", f.Path, owner.what)
		}
	}
	if err := w.stamp(f.Path); err != nil {
		return err
	}
	return w.machine.WriteFile(f.Path, content, fileMode(f))
}

// stamp records that the OS image has no file at the path, so that removal deletes ours
// (pkg/daemon/file_writers.go, createOrigFile). Keeping a file of the image is not
// implemented, because no file here replaces one.
func (w *writer) stamp(name string) error {
	if err := w.refuseShipped(name); err != nil {
		return err
	}
	there, err := exists(w.machine, stampName(name))
	if err != nil || there {
		return err
	}
	return w.machine.WriteFile(stampName(name), "", defaultMode)
}

func stampName(name string) string {
	return "/etc/machine-config-daemon/noorig" + name + ".mcdnoorig"
}

func (w *writer) refuseShipped(name string) error {
	if !strings.HasPrefix(name, "/etc/") {
		return nil
	}
	shipped, err := exists(w.machine, "/usr"+name)
	if err != nil {
		return err
	}
	if shipped {
		return fmt.Errorf("write %s: the OS image has it as /usr%s, and keeping originals is not supported here", name, name)
	}
	return nil
}

// writeUnits follows pkg/daemon/update.go, writeUnits: one enable and one disable command
// for all units, and a preset for each unit without either.
func (w *writer) writeUnits(ctx context.Context, units []types.Unit) error {
	onDisk, err := w.unitFiles(ctx, units)
	if err != nil {
		return err
	}
	var enable, disable []string
	for _, u := range units {
		if err := w.writeUnit(ctx, u); err != nil {
			return fmt.Errorf("write unit %s: %w", u.Name, err)
		}
		switch {
		case u.Enabled == nil:
			w.preset(ctx, u.Name)
		case w.flavour.skipsUnitsWithoutFile() && !hasContents(u) && !slices.Contains(onDisk, u.Name):
			w.notes = append(w.notes, "ignored unit "+u.Name+": no contents")
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

// unitFiles returns the host's units if a unit to be written has no contents.
func (w *writer) unitFiles(ctx context.Context, units []types.Unit) ([]string, error) {
	if !w.flavour.skipsUnitsWithoutFile() || !slices.ContainsFunc(units, func(u types.Unit) bool { return !hasContents(u) }) {
		return nil, nil
	}
	out, err := w.machine.Run(ctx, "systemctl", "list-unit-files", "--plain", "--no-legend")
	if err != nil {
		return nil, fmt.Errorf("list the host's units: %w", err)
	}
	var names []string
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) > 0 {
			names = append(names, fields[0])
		}
	}
	return names, nil
}

// writeUnit follows pkg/daemon/file_writers.go, writeUnit. An enabled unit is disabled
// first, because the new text can have another WantedBy= (OCPBUGS-33694).
func (w *writer) writeUnit(ctx context.Context, u types.Unit) error {
	for _, d := range u.Dropins {
		if err := w.writeDropin(u, d); err != nil {
			return err
		}
	}
	name := path.Join(systemdRoot, u.Name)
	switch {
	case u.Mask != nil && *u.Mask:
		if err := w.machine.RemoveFile(name); err != nil {
			return err
		}
		_, err := w.machine.Run(ctx, "ln", "-s", "/dev/null", name)
		return err
	case hasContents(u):
		if err := w.refuseShipped(name); err != nil {
			return err
		}
		// is-enabled exits nonzero unless the unit is enabled; its output decides.
		out, err := w.machine.Run(ctx, "systemctl", "is-enabled", u.Name)
		if err == nil && strings.TrimSpace(out) == "enabled" {
			if err := w.systemctl(ctx, "disable", []string{u.Name}); err != nil {
				return err
			}
		}
		return w.machine.WriteFile(name, *u.Contents, defaultMode)
	case u.Mask != nil:
		return w.machine.RemoveFile(name)
	default:
		return nil
	}
}

// writeDropin follows pkg/daemon/file_writers.go, writeDropins: a drop-in without contents
// is removed.
func (w *writer) writeDropin(u types.Unit, d types.Dropin) error {
	name := dropinPath(u, d)
	if d.Contents == nil || *d.Contents == "" {
		return w.machine.RemoveFile(name)
	}
	if err := w.refuseShipped(name); err != nil {
		return err
	}
	return w.machine.WriteFile(name, *d.Contents, defaultMode)
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
		if _, stays := newFiles[f.Path]; stays || isCertificate(f.Path) {
			continue
		}
		if err := w.machine.RemoveFile(stampName(f.Path)); err != nil {
			return err
		}
		// A file that became a drop-in is already written.
		if slices.Contains(newDropins, f.Path) {
			continue
		}
		if err := w.machine.RemoveFile(f.Path); err != nil {
			return err
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

// isCertificate reports which files outlive their MachineConfig, because another part of
// the daemon writes them (pkg/daemon/update.go, deleteStaleData).
func isCertificate(name string) bool {
	return slices.Contains([]string{
		"/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt",
		"/etc/kubernetes/kubelet-ca.crt",
		"/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem",
	}, name) || strings.Contains(path.Dir(name), "/etc/docker/certs.d")
}

func hasContents(u types.Unit) bool { return u.Contents != nil && *u.Contents != "" }

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
