// SPDX-License-Identifier: Apache-2.0

package mcd

import (
	"reflect"
	"slices"

	"github.com/coreos/ignition/v2/config/v3_5/types"
)

// difference holds the changes of an update (pkg/controller/common/helpers.go,
// CalculateConfigFileDiffs and GetChangedConfigUnitsByType). Upstream builds these lists by
// iterating over Go maps in random order, which shuffle reproduces.
type difference struct {
	removedFiles, changedFiles             []string
	addedUnits, updatedUnits, removedUnits []types.Unit
}

func compareConfigs(from, to Rendered, shuffle func(int, func(i, j int))) difference {
	var d difference
	oldFiles, newFiles := filesByPath(from), filesByPath(to)
	for _, f := range from.ignition.Storage.Files {
		if _, stays := newFiles[f.Path]; !stays {
			d.removedFiles = append(d.removedFiles, f.Path)
		}
	}
	for _, f := range to.ignition.Storage.Files {
		if old, there := oldFiles[f.Path]; !there || !reflect.DeepEqual(old, f) {
			d.changedFiles = append(d.changedFiles, f.Path)
		}
	}
	oldUnits, newUnits := unitsByName(from), unitsByName(to)
	for _, u := range from.ignition.Systemd.Units {
		if _, stays := newUnits[u.Name]; !stays {
			d.removedUnits = append(d.removedUnits, u)
		}
	}
	for _, u := range to.ignition.Systemd.Units {
		if old, there := oldUnits[u.Name]; !there {
			d.addedUnits = append(d.addedUnits, u)
		} else if !reflect.DeepEqual(old, u) {
			d.updatedUnits = append(d.updatedUnits, u)
		}
	}
	if shuffle != nil {
		for _, l := range [][]string{d.removedFiles, d.changedFiles} {
			shuffle(len(l), reflect.Swapper(l))
		}
		for _, l := range [][]types.Unit{d.addedUnits, d.updatedUnits, d.removedUnits} {
			shuffle(len(l), reflect.Swapper(l))
		}
	}
	return d
}

func (d difference) files() []string {
	return slices.Concat(d.removedFiles, d.changedFiles)
}

// units returns the names of units in the order of their actions. 4.17 starts with removed
// units and puts the others into one list.
func (d difference) units(f Flavour) []string {
	groups := [][]types.Unit{d.addedUnits, d.updatedUnits, d.removedUnits}
	if f == OpenShift417 {
		groups = [][]types.Unit{d.removedUnits, d.addedUnits, d.updatedUnits}
	}
	var names []string
	for _, g := range groups {
		for _, u := range g {
			names = append(names, u.Name)
		}
	}
	return names
}

// write returns the units to be written.
func (d difference) write(to Rendered, f Flavour) []types.Unit {
	if f.writesAllUnits() {
		return to.ignition.Systemd.Units
	}
	return slices.Concat(d.addedUnits, d.updatedUnits)
}

func filesByPath(r Rendered) map[string]types.File {
	files := make(map[string]types.File, len(r.ignition.Storage.Files))
	for _, f := range r.ignition.Storage.Files {
		files[f.Path] = f
	}
	return files
}

func unitsByName(r Rendered) map[string]types.Unit {
	units := make(map[string]types.Unit, len(r.ignition.Systemd.Units))
	for _, u := range r.ignition.Systemd.Units {
		units[u.Name] = u
	}
	return units
}
