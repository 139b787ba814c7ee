// SPDX-License-Identifier: Apache-2.0

// The actions that the replayed daemons select. The policy comes from the operator's own code.

package mcd

import (
	"path"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
)

// Action is a command of the daemon after it wrote files.
type Action = operatorv1.NodeDisruptionPolicyStatusAction

// Policy is the active policy, which the operator's own code merges: the daemons that this package
// replays select their actions from it.
type Policy operatorv1.NodeDisruptionPolicyClusterStatus

// file returns the actions for a changed file, from the entry with the longest path that
// names the file or a parent folder (pkg/controller/common/helpers.go,
// FindClosestFilePolicyPathMatch).
func (p Policy) file(name string) (actions []Action, found bool) {
	length := 0
	for _, entry := range p.Files {
		below := strings.HasPrefix(name, path.Clean(entry.Path)+"/")
		if (name == entry.Path || below) && len(entry.Path) > length {
			length, actions, found = len(entry.Path), entry.Actions, true
		}
	}
	return actions, found
}

func (p Policy) unit(name string) (actions []Action, found bool) {
	i := slices.IndexFunc(p.Units, func(entry operatorv1.NodeDisruptionPolicyStatusUnit) bool {
		return string(entry.Name) == name
	})
	if i < 0 {
		return nil, false
	}
	return p.Units[i].Actions, true
}

// decide returns the actions for changed files and then units, without removing repeated
// ones, and whether the host reboots instead. A change without an entry needs a reboot
// (pkg/daemon/update.go, calculatePostConfigChangeNodeDisruptionActionFromMCDiffs).
func (p Policy) decide(changes difference, f Flavour) (actions []Action, reboot bool) {
	add := func(more []Action, found bool) {
		actions, reboot = append(actions, more...), reboot || !found
	}
	for _, name := range changes.files {
		add(p.file(name))
	}
	for _, u := range changes.changed(f) {
		add(p.unit(u.Name))
	}
	reboot = reboot || slices.ContainsFunc(actions, func(a Action) bool { return a.Type == operatorv1.RebootStatusAction })
	return actions, reboot
}
