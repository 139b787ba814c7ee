// SPDX-License-Identifier: Apache-2.0

// Which files and units an update changes. The order of removed units differs in 4.17, which is not served.

package mcd

import (
	"reflect"
	"slices"

	"github.com/coreos/ignition/v2/config/v3_5/types"
)

// difference holds the changes of an update (pkg/controller/common/helpers.go,
// CalculateConfigFileDiffs and GetChangedConfigUnitsByType). As upstream, it has the random order of
// Go maps.
type difference struct {
	files                   []string
	added, updated, removed []types.Unit
}

func compareConfigs(from, to Rendered) (d difference) {
	for path := range from.files {
		if _, stays := to.files[path]; !stays {
			d.files = append(d.files, path)
		}
	}
	for path, f := range to.files {
		if old, there := from.files[path]; !there || old != f {
			d.files = append(d.files, path)
		}
	}
	for name, u := range from.units {
		if _, stays := to.units[name]; !stays {
			d.removed = append(d.removed, u)
		}
	}
	for name, u := range to.units {
		if old, there := from.units[name]; !there {
			d.added = append(d.added, u)
		} else if !reflect.DeepEqual(old, u) {
			d.updated = append(d.updated, u)
		}
	}
	return d
}

// changed returns the units in the order of their actions. 4.17 starts with removed ones.
func (d difference) changed(f Flavour) []types.Unit {
	if f == OpenShift417 {
		return slices.Concat(d.removed, d.added, d.updated)
	}
	return slices.Concat(d.added, d.updated, d.removed)
}
