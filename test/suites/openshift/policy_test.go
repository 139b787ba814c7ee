// SPDX-License-Identifier: Apache-2.0

package openshift

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/oracle"
)

// policyFile is the policy that the service needs.
const policyFile = repository + "/machineconfigs/10-policy/policy.yaml"

// Entries of an administrator.
type (
	specFile   = operatorv1.NodeDisruptionPolicySpecFile
	actionType = operatorv1.NodeDisruptionPolicySpecActionType
)

// entry returns an entry with one action.
func entry(path string, action actionType) specFile {
	return specFile{
		Path: path, Actions: []operatorv1.NodeDisruptionPolicySpecAction{{Type: action}},
	}
}

// policyCase is a policy of a cluster.
type policyCase struct {
	change func(*operatorv1.NodeDisruptionPolicyConfig) // of ours
	// The findings of preflight.
	missing, reboots bool
}

func policyCases() map[string]policyCase {
	type config = operatorv1.NodeDisruptionPolicyConfig
	return map[string]policyCase{
		"ours": {func(*config) {}, false, false},
		"replaced by another tool": {func(c *config) {
			c.Files = []specFile{entry("/etc/sysconfig/nftables.conf", operatorv1.NoneSpecAction)}
			c.Units = nil
		}, true, false},
		"a reboot for all of /etc": {func(c *config) {
			c.Files = append(c.Files, entry("/etc", operatorv1.RebootSpecAction))
		}, false, false},
		"a reboot for our configuration": {func(c *config) {
			c.Files = append(c.Files, entry("/etc/http01-proxyd/config.yaml", operatorv1.RebootSpecAction))
		}, false, true},
		"a drain for our configuration": {func(c *config) {
			c.Files = append(c.Files, entry("/etc/http01-proxyd/config.yaml", operatorv1.DrainSpecAction))
		}, false, true},
		"a unit is missing":     {func(c *config) { c.Units = c.Units[1:] }, true, false},
		"the folder is missing": {func(c *config) { c.Files = c.Files[1:] }, true, false},
		"a default is replaced": {func(c *config) {
			c.Files = append(c.Files, entry("/etc/containers/policy.json", operatorv1.NoneSpecAction))
		}, false, false},
		"fifty entries in total": {func(c *config) {
			for i := len(c.Files); i < 50; i++ {
				c.Files = append(c.Files, entry(fmt.Sprintf("/etc/site/%d", i), operatorv1.NoneSpecAction))
			}
		}, false, false},
	}
}

// TestPolicy: the operator's active policy covers our files and units, beside its default entries.
// preflight predicts whether a change of them would reboot the nodes.
func TestPolicy(t *testing.T) {
	t.Parallel()
	paths, units := ourContents(t)
	for name, tt := range policyCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var object operatorv1.MachineConfiguration
			must(t, yaml.Unmarshal(must1(os.ReadFile(policyFile))(t), &object))
			tt.change(&object.Spec.NodeDisruptionPolicy)
			eachRelease(t, func(t *testing.T, _ oracle.Release, o *oracle.Operator) {
				t.Helper()
				answer := must1(o.Ask(t.Context(), oracle.Request{
					Policy: string(must1(yaml.Marshal(object))(t)), Paths: paths,
				}))(t)
				missing, reboots := effects(answer, paths, units)
				if missing != tt.missing || reboots != tt.reboots {
					t.Errorf("entries: missing %t, reboots %t, want %t and %t", missing, reboots, tt.missing, tt.reboots)
				}
				live := object.DeepCopy()
				live.Generation, live.Status.ObservedGeneration = 7, 7
				live.Status.NodeDisruptionPolicyStatus.ClusterPolicies = *answer.Policies
				dir := t.TempDir()
				must(t, os.WriteFile(filepath.Join(dir, "live.yaml"), must1(yaml.Marshal(live))(t), 0o600))
				found := preflight(t, dir, "live.yaml", must1(filepath.Abs(filepath.Join(repository, "machineconfigs")))(t))
				if found["policy-entries-missing"] != "" != missing || found["policy-entries-reboot"] != "" != reboots {
					t.Errorf("preflight predicts %v", found)
				}
			})
		})
	}
}

// effects reports whether entries of our files and units are missing, and whether entries reboot or
// drain the nodes.
func effects(answer oracle.Response, paths, units []string) (missing, reboots bool) {
	judge := func(actions []operatorv1.NodeDisruptionPolicyStatusAction) {
		missing = missing || len(actions) == 0
		reboots = reboots || slices.ContainsFunc(actions, func(a operatorv1.NodeDisruptionPolicyStatusAction) bool {
			return a.Type == operatorv1.RebootStatusAction || a.Type == operatorv1.DrainStatusAction
		})
	}
	for _, path := range paths {
		judge(answer.Actions[path])
	}
	for _, unit := range units {
		var actions []operatorv1.NodeDisruptionPolicyStatusAction
		for _, entry := range answer.Policies.Units {
			if string(entry.Name) == unit {
				actions = entry.Actions
			}
		}
		judge(actions)
	}
	return missing, reboots
}

// ourContents returns the files and units of our MachineConfigs.
func ourContents(t *testing.T) (paths, units []string) {
	t.Helper()
	for _, text := range ourConfigs(t) {
		config := ignition(t, read(t, text))
		for _, f := range config.Storage.Files {
			paths = append(paths, f.Path)
		}
		for _, u := range config.Systemd.Units {
			units = append(units, u.Name)
		}
	}
	if len(paths) < 3 || len(units) < 3 {
		t.Fatalf("our files %v, our units %v", paths, units)
	}
	return paths, units
}

// TestDefaultPolicy: without entries of an administrator, the active policy has the operator's own,
// none of which covers our files or units.
func TestDefaultPolicy(t *testing.T) {
	t.Parallel()
	paths, units := ourContents(t)
	eachRelease(t, func(t *testing.T, _ oracle.Release, o *oracle.Operator) {
		t.Helper()
		answer := must1(o.Ask(t.Context(), oracle.Request{
			Policy: "apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\nmetadata: {name: cluster}\n",
			Paths:  paths,
		}))(t)
		var defaults []string
		for _, f := range answer.Policies.Files {
			defaults = append(defaults, f.Path)
		}
		t.Logf("default entries:\n%s", strings.Join(defaults, "\n"))
		if len(defaults) < 3 || len(answer.Actions) > 0 {
			t.Errorf("%d default entries; for our files: %v", len(defaults), answer.Actions)
		}
		for _, entry := range answer.Policies.Units {
			if slices.Contains(units, string(entry.Name)) {
				t.Errorf("a default entry for our unit %s", entry.Name)
			}
		}
	})
}
