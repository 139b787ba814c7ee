// SPDX-License-Identifier: Apache-2.0

package mcd

import (
	"path"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
)

// ActionType is a type of action of a NodeDisruptionPolicy.
type ActionType = operatorv1.NodeDisruptionPolicyStatusActionType

// The action types.
const (
	Reboot       = operatorv1.RebootStatusAction
	Drain        = operatorv1.DrainStatusAction
	Reload       = operatorv1.ReloadStatusAction
	Restart      = operatorv1.RestartStatusAction
	DaemonReload = operatorv1.DaemonReloadStatusAction
	None         = operatorv1.NoneStatusAction
)

// Action is a command of the daemon after it wrote files.
type Action struct {
	Type    ActionType
	Service string // of Reload and Restart
}

// String formats the action: "Restart crio.service".
func (a Action) String() string {
	return strings.TrimSpace(string(a.Type) + " " + a.Service)
}

// Policy is the active policy: status.nodeDisruptionPolicyStatus.clusterPolicies.
type Policy operatorv1.NodeDisruptionPolicyClusterStatus

func convert(all []operatorv1.NodeDisruptionPolicyStatusAction) (actions []Action) {
	for _, one := range all {
		a := Action{Type: one.Type}
		if one.Reload != nil {
			a.Service = string(one.Reload.ServiceName)
		}
		if one.Restart != nil {
			a.Service = string(one.Restart.ServiceName)
		}
		actions = append(actions, a)
	}
	return actions
}

// File returns the actions for a changed file, from the entry with the longest path that
// names the file or a parent folder (pkg/controller/common/helpers.go,
// FindClosestFilePolicyPathMatch).
func (p Policy) File(file string) (actions []Action, found bool) {
	length := 0
	for _, entry := range p.Files {
		below := strings.HasPrefix(path.Clean(file), path.Clean(entry.Path)+"/")
		if (file == entry.Path || below) && len(entry.Path) > length {
			length, actions, found = len(entry.Path), convert(entry.Actions), true
		}
	}
	return actions, found
}

func (p Policy) unit(name string) (actions []Action, found bool) {
	for _, entry := range p.Units {
		if string(entry.Name) == name {
			return convert(entry.Actions), true
		}
	}
	return nil, false
}

// decide returns the actions for changed files and then units, without removing repeated
// ones. A change without an entry needs a reboot. A reboot replaces all other actions, and
// None is dropped beside another action (pkg/daemon/update.go,
// calculatePostConfigChangeNodeDisruptionActionFromMCDiffs).
func (p Policy) decide(files, units []string) []Action {
	reboot := []Action{{Type: Reboot}}
	var actions []Action
	for _, f := range files {
		more, found := p.File(f)
		if !found {
			return reboot
		}
		actions = append(actions, more...)
	}
	for _, u := range units {
		more, found := p.unit(u)
		if !found {
			return reboot
		}
		actions = append(actions, more...)
	}
	if hasType(actions, Reboot) {
		return reboot
	}
	rest := slices.DeleteFunc(slices.Clone(actions), func(a Action) bool { return a.Type == None })
	if len(rest) == 0 && len(actions) > 0 {
		return []Action{{Type: None}}
	}
	return rest
}

func hasType(actions []Action, kind ActionType) bool {
	return slices.ContainsFunc(actions, func(a Action) bool { return a.Type == kind })
}
