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

// The action types. Special is internal to the MCO, for registries.conf.
const (
	Reboot       = operatorv1.RebootStatusAction
	Drain        = operatorv1.DrainStatusAction
	Reload       = operatorv1.ReloadStatusAction
	Restart      = operatorv1.RestartStatusAction
	DaemonReload = operatorv1.DaemonReloadStatusAction
	None         = operatorv1.NoneStatusAction
	Special      = operatorv1.SpecialStatusAction
)

// Action is a command of the daemon after it has written files.
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
	Files  []Rule // by path of a file or a folder
	Units  []Rule // by name of a unit
	SSHKey []Action
}

// Rule is one entry of a policy.
type Rule struct {
	Key     string
	Actions []Action
}

// ReadPolicy merges the spec of a MachineConfiguration into the MCO's defaults: an entry
// for a default's path or unit replaces that entry, others follow
// (pkg/apihelpers/apihelpers.go, MergeClusterPolicies). Without content it returns the
// defaults of 4.22; older releases have fewer.
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
		return Policy{}, fmt.Errorf("read the node disruption policy: kind %q is not MachineConfiguration", object.Kind)
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
			return nil, fmt.Errorf("policy for %s: %s has no service", key, s.Type)
		}
		actions = append(actions, a)
	}
	return actions, nil
}

// closest returns the actions for a changed file: those of the longest path that is the
// file's own or that of a parent folder (pkg/controller/common/helpers.go,
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

// defaultPolicy returns a cluster's policy before an administrator changes it
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
