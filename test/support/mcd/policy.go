// SPDX-License-Identifier: Apache-2.0

package mcd

import (
	"fmt"
	"path"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	"sigs.k8s.io/yaml"
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

// Policy maps changes to actions, as status.nodeDisruptionPolicyStatus.clusterPolicies
// does. The order is kept.
type Policy struct {
	Files []Rule // by path of a file or a folder
	Units []Rule // by name of a unit
}

// Rule is one entry of a policy.
type Rule struct {
	Key     string
	Actions []Action
}

// ReadPolicy reads the spec of a MachineConfiguration. The MCO's defaults, to which it adds
// these entries, name no path or unit that the tests change.
func ReadPolicy(content []byte) (p Policy, err error) {
	var object operatorv1.MachineConfiguration
	if err := yaml.Unmarshal(content, &object); err != nil {
		return Policy{}, fmt.Errorf("read the node disruption policy: %w", err)
	}
	spec := object.Spec.NodeDisruptionPolicy
	for _, f := range spec.Files {
		p.Files = append(p.Files, Rule{f.Path, convert(f.Actions)})
	}
	for _, u := range spec.Units {
		p.Units = append(p.Units, Rule{string(u.Name), convert(u.Actions)})
	}
	return p, nil
}

func convert(spec []operatorv1.NodeDisruptionPolicySpecAction) (actions []Action) {
	for _, s := range spec {
		a := Action{Type: ActionType(s.Type)}
		if s.Reload != nil {
			a.Service = string(s.Reload.ServiceName)
		}
		if s.Restart != nil {
			a.Service = string(s.Restart.ServiceName)
		}
		actions = append(actions, a)
	}
	return actions
}

// closest returns the actions for a changed file, from the entry with the longest path that
// names the file or a parent folder (pkg/controller/common/helpers.go,
// FindClosestFilePolicyPathMatch).
func (p Policy) closest(file string) (actions []Action, found bool) {
	length := 0
	for _, r := range p.Files {
		below := strings.HasPrefix(path.Clean(file), path.Clean(r.Key)+"/")
		if (file == r.Key || below) && len(r.Key) > length {
			length, actions, found = len(r.Key), r.Actions, true
		}
	}
	return actions, found
}

func (p Policy) unit(name string) (actions []Action, found bool) {
	i := slices.IndexFunc(p.Units, func(r Rule) bool { return r.Key == name })
	if i < 0 {
		return nil, false
	}
	return p.Units[i].Actions, true
}

// decide returns the actions for changed files and then units, without removing repeated
// ones. A change without a rule needs a reboot. A reboot replaces all other actions, and
// None is dropped beside another action (pkg/daemon/update.go,
// calculatePostConfigChangeNodeDisruptionActionFromMCDiffs).
func (p Policy) decide(files, units []string) []Action {
	reboot := []Action{{Type: Reboot}}
	var actions []Action
	for _, f := range files {
		more, found := p.closest(f)
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
