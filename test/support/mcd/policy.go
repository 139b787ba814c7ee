// SPDX-License-Identifier: Apache-2.0

package mcd

import (
	"fmt"
	"path"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
)

// ActionType is a type of action of a NodeDisruptionPolicy.
type ActionType = operatorv1.NodeDisruptionPolicyStatusActionType

// The action types. Special is the MCO's own, for registries.conf.
const (
	Reboot       = operatorv1.RebootStatusAction
	Drain        = operatorv1.DrainStatusAction
	Reload       = operatorv1.ReloadStatusAction
	Restart      = operatorv1.RestartStatusAction
	DaemonReload = operatorv1.DaemonReloadStatusAction
	None         = operatorv1.NoneStatusAction
	Special      = operatorv1.SpecialStatusAction
)

// Action is what the daemon does after it has written files.
type Action struct {
	Type    ActionType
	Service string // of Reload and Restart
}

// String is the action as one would say it: "Restart crio.service".
func (a Action) String() string {
	return strings.TrimSpace(string(a.Type) + " " + a.Service)
}

// Policy says which change leads to which actions, as
// status.nodeDisruptionPolicyStatus.clusterPolicies does. Its order is kept.
type Policy struct {
	Files  []Rule // by a file's or a folder's path
	Units  []Rule // by a unit's name
	SSHKey []Action
}

// Rule is one entry of a policy.
type Rule struct {
	Key     string
	Actions []Action
}

// ReadPolicy reads the spec of a MachineConfiguration and lays it over the
// MCO's defaults: an entry for a default's path or unit replaces that entry,
// others follow (pkg/apihelpers/apihelpers.go, MergeClusterPolicies). Without
// content it gives the defaults, those of 4.22; older releases have fewer.
func ReadPolicy(content []byte) (Policy, error) {
	p := defaultPolicy()
	if len(content) == 0 {
		return p, nil
	}
	var object operatorv1.MachineConfiguration
	if err := unmarshal(content, &object); err != nil {
		return Policy{}, fmt.Errorf("read the node disruption policy: %w", err)
	}
	if object.Kind != "MachineConfiguration" {
		return Policy{}, fmt.Errorf("read the node disruption policy: it is a %q, not a MachineConfiguration", object.Kind)
	}
	spec := object.Spec.NodeDisruptionPolicy
	for _, f := range spec.Files {
		actions, err := convert(f.Path, f.Actions)
		if err != nil {
			return Policy{}, err
		}
		p.Files = overlayRule(p.Files, Rule{f.Path, actions})
	}
	for _, u := range spec.Units {
		actions, err := convert(string(u.Name), u.Actions)
		if err != nil {
			return Policy{}, err
		}
		p.Units = overlayRule(p.Units, Rule{string(u.Name), actions})
	}
	if len(spec.SSHKey.Actions) > 0 {
		actions, err := convert("sshkey", spec.SSHKey.Actions)
		if err != nil {
			return Policy{}, err
		}
		p.SSHKey = actions
	}
	return p, nil
}

func overlayRule(rules []Rule, r Rule) []Rule {
	if i := slices.IndexFunc(rules, func(o Rule) bool { return o.Key == r.Key }); i >= 0 {
		rules[i] = r
		return rules
	}
	return append(rules, r)
}

func convert(key string, spec []operatorv1.NodeDisruptionPolicySpecAction) ([]Action, error) {
	actions := make([]Action, 0, len(spec))
	for _, s := range spec {
		a := Action{Type: ActionType(s.Type)}
		switch a.Type {
		case Reboot, Drain, DaemonReload, None:
			actions = append(actions, a)
			continue
		case Reload:
			if s.Reload != nil {
				a.Service = string(s.Reload.ServiceName)
			}
		case Restart:
			if s.Restart != nil {
				a.Service = string(s.Restart.ServiceName)
			}
		default:
			return nil, fmt.Errorf("policy for %s: unknown action %q", key, s.Type)
		}
		if a.Service == "" {
			return nil, fmt.Errorf("policy for %s: %s names no service", key, s.Type)
		}
		actions = append(actions, a)
	}
	return actions, nil
}

// closest finds the actions for a changed file: the longest path that is the
// file's own or that of a folder above it
// (pkg/controller/common/helpers.go, FindClosestFilePolicyPathMatch).
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

// decide lists the actions for changed files and units, files first, each
// change adding its own however often that repeats one. What no rule covers
// means a reboot, a reboot makes all else superfluous, and None is dropped
// beside anything else (pkg/controller/update.go,
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

// defaultPolicy is what a cluster has before its admin says anything
// (pkg/apihelpers/apihelpers.go, defaultClusterPolicies).
func defaultPolicy() Policy {
	none := []Action{{Type: None}}
	reloadCRIO := []Action{{Reload, "crio.service"}}
	restart := func(services ...string) (actions []Action) {
		for _, s := range services {
			actions = append(actions, Action{Restart, s})
		}
		return actions
	}
	daemonReload := []Action{{Type: DaemonReload}}
	return Policy{
		Files: []Rule{
			{"/var/lib/kubelet/config.json", none},
			{"/etc/machine-config-daemon/no-reboot/containers-gpg.pub", reloadCRIO},
			{"/etc/containers/policy.json", reloadCRIO},
			{"/etc/containers/registries.conf", []Action{{Type: Special}}},
			{"/etc/containers/registries.d", reloadCRIO},
			{"/etc/crio/policies", reloadCRIO},
			{"/etc/nmstate/openshift", none},
			{"/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt", restart(caTrust, "crio.service")},
			{"/etc/kubernetes/credential-providers", restart("kubelet.service")},
			{
				"/etc/systemd/system/kubelet.service.d/40-kubelet-crio-image-credential-provider.conf",
				append(daemonReload, restart("kubelet.service")...),
			},
			{"/etc/iri-registry", restart(registry)},
			{"/usr/local/bin/load-registry-image.sh", restart(registry)},
			{"/etc/pki/ca-trust/source/anchors/iri-root-ca.crt", restart(caTrust)},
		},
		Units:  []Rule{{registry, append(daemonReload, restart(registry)...)}},
		SSHKey: none,
	}
}

const (
	caTrust  = "coreos-update-ca-trust.service"
	registry = "iri-registry.service"
)
