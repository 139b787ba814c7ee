// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const root = "../../.."

const (
	manager      = "http01-proxyd"
	otherManager = "admin"
)

// policyHead begins a policy.
const policyHead = "apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\nmetadata: {name: cluster}\n" +
	"spec:\n  nodeDisruptionPolicy:\n"

const removal = "apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\n" +
	"metadata:\n  name: cluster\nspec: {}\n"

// TestRepositoryMachineConfigs validates all objects that `oc apply -f machineconfigs/`
// sends.
func TestRepositoryMachineConfigs(t *testing.T) {
	j := load(t)
	for name, document := range shippedObjects(t, "machineconfigs/*.yaml") {
		t.Run(name, func(t *testing.T) {
			if err := j.MachineConfig(document); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRepositoryPolicy holds that the policy fragment is valid alone and merges with an
// administrator's policy.
func TestRepositoryPolicy(t *testing.T) {
	j := load(t)
	const other = policyHead + `    files:
    - {path: /etc/z, actions: [{type: Reload, reload: {serviceName: z.service}}]}
    - {path: /etc/a, actions: [{type: None}]}
    units:
    - {name: z.service, actions: [{type: Drain}]}
    - {name: a.service, actions: [{type: Reboot}]}
    sshkey: {actions: [{type: Drain}]}
  managedBootImages: {machineManagers: []}
`
	for name, fragment := range shippedObjects(t, "machineconfigs/10-policy/*.yaml") {
		t.Run(name, func(t *testing.T) {
			must(t, j.Object(fragment))
			if u := decodeObject(t, fragment); u.GetKind() != "MachineConfiguration" || u.GetName() != "cluster" {
				t.Errorf("object %s %s: the operator reads only MachineConfiguration cluster", u.GetKind(), u.GetName())
			}
			live, err := j.Apply(nil, []byte(other), otherManager, false)
			must(t, err)
			merged, err := j.Apply(live, fragment, manager, false)
			must(t, err)
			wantSpec := nodeDisruption(t, []byte(other))
			own := nodeDisruption(t, fragment)
			for _, list := range []string{"files", "units"} {
				entries := slices.Concat(items(wantSpec, list), items(own, list))
				if len(items(own, list)) == 0 {
					t.Errorf("the fragment has no %s", list)
				}
				wantSpec[list] = entries
			}
			if diff := cmp.Diff(wantSpec, nodeDisruption(t, merged)); diff != "" {
				t.Errorf("merged policy (-want +got):\n%s", diff)
			}
			again, err := j.Apply(merged, fragment, manager, false)
			must(t, err)
			if diff := cmp.Diff(string(merged), string(again)); diff != "" {
				t.Errorf("a second apply (-first +second):\n%s", diff)
			}
			// The object in apply.sh, as pkg/cluster/disruption tests.
			gone, err := j.Apply(again, []byte(removal), manager, false)
			must(t, err)
			if diff := cmp.Diff(nodeDisruption(t, live), nodeDisruption(t, gone)); diff != "" {
				t.Errorf("policy after the removal (-before +after):\n%s", diff)
			}
		})
	}
}

// TestRepositoryPolicyConflict holds that an administrator's entry with other actions
// causes a conflict and is not overwritten.
func TestRepositoryPolicyConflict(t *testing.T) {
	j := load(t)
	for name, fragment := range shippedObjects(t, "machineconfigs/10-policy/*.yaml") {
		own := nodeDisruption(t, fragment)
		for _, list := range []string{"files", "units"} {
			for _, item := range items(own, list) {
				key, _ := item.(map[string]any)
				for _, by := range []string{"path", "name"} {
					if key[by] == nil {
						continue
					}
					value, _ := key[by].(string)
					t.Run(name+" "+value, func(t *testing.T) {
						entry := policyHead + "    " + list + ": [{" + by + ": " + value + ", actions: [{type: Drain}]}]\n"
						live, err := j.Apply(nil, []byte(entry), otherManager, false)
						must(t, err)
						_, err = j.Apply(live, fragment, manager, false)
						want := fmt.Sprintf("conflicts: .spec.nodeDisruptionPolicy.%s[%s=%q].actions: conflict with %q",
							list, by, value, otherManager)
						if err == nil || !strings.Contains(err.Error(), want) {
							t.Errorf("error: %v\nwant: %s", err, want)
						}
					})
				}
			}
		}
	}
}

// TestRepositoryPolicyLimit holds that the API server rejects entries beyond its limit of 50 in each
// list, names the list, and keeps the entries of others.
func TestRepositoryPolicyLimit(t *testing.T) {
	const limit = 50
	j := load(t)
	for name, fragment := range shippedObjects(t, "machineconfigs/10-policy/*.yaml") {
		own := nodeDisruption(t, fragment)
		for list, key := range map[string]string{"files": "path: /etc/other-%d", "units": "name: other-%d.service"} {
			t.Run(name+" "+list, func(t *testing.T) {
				entries := func(n int) []byte {
					text := []byte(policyHead + "    " + list + ":\n")
					for i := range n {
						text = fmt.Appendf(text, "    - {"+key+", actions: [{type: None}]}\n", i)
					}
					return text
				}
				fits := limit - len(items(own, list))
				live, err := j.Apply(nil, entries(fits), otherManager, false)
				must(t, err)
				_, err = j.Apply(live, fragment, manager, false)
				must(t, err)
				live, err = j.Apply(nil, entries(fits+1), otherManager, false)
				must(t, err)
				_, err = j.Apply(live, fragment, manager, false)
				want := fmt.Sprintf("spec.nodeDisruptionPolicy.%s: Too many: %d: must have at most %d items", list, limit+1, limit)
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error: %v\nwant: %s", err, want)
				}
			})
		}
	}
}

// TestRepositoryDocuments validates the objects in the documents of the installation.
func TestRepositoryDocuments(t *testing.T) {
	j := load(t)
	seen := map[string]int{}
	for file, text := range shippedFiles(t, "docs/install/*.md") {
		for i, block := range fencedYAML.FindAllStringSubmatch(text, -1) {
			documents, err := Documents([]byte(block[1]))
			if err != nil {
				t.Errorf("%s, YAML block %d: %v", file, i+1, err)
				continue
			}
			for _, d := range documents {
				u := decodeObject(t, d)
				if u.GetKind() != "MachineOSConfig" && u.GetKind() != "MachineConfig" && u.GetKind() != "MachineConfiguration" {
					continue
				}
				seen[u.GetKind()]++
				err := j.Object(d)
				if u.GetKind() == "MachineConfig" && hasConfig(u) {
					err = j.MachineConfig(d)
				}
				if err != nil {
					t.Errorf("%s, YAML block %d: %v", file, i+1, err)
				}
			}
		}
	}
	if seen["MachineOSConfig"] == 0 {
		t.Error("no document shows a MachineOSConfig")
	}
}

// hasConfig reports whether a MachineConfig has a config. One that only sets osImageURL has
// none.
func hasConfig(u *unstructured.Unstructured) bool {
	_, found, err := unstructured.NestedFieldNoCopy(u.Object, "spec", "config")
	return found && err == nil
}

// fencedYAML matches a Markdown block marked as YAML, at any depth.
var fencedYAML = regexp.MustCompile("(?ms)^[ \t]*```yaml(?: [^\n]*)?\n(.*?)^[ \t]*```[ \t]*$")

// shippedObjects returns the repository's objects in files of a pattern, by file name.
func shippedObjects(t *testing.T, pattern string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for name, text := range shippedFiles(t, pattern) {
		documents, err := Documents([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(documents) != 1 {
			t.Fatalf("%s has %d objects, want one per file", name, len(documents))
		}
		all[name] = documents[0]
	}
	return all
}

func shippedFiles(t *testing.T, pattern string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pattern))
	must(t, err)
	if len(files) == 0 {
		t.Fatalf("the repository has no %s: make machineconfigs", pattern)
	}
	all := map[string]string{}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		must(t, err)
		all[filepath.Base(f)] = string(raw)
	}
	return all
}

func decodeObject(t *testing.T, document []byte) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal(document, &u.Object))
	return u
}

func nodeDisruption(t *testing.T, document []byte) map[string]any {
	t.Helper()
	policy, _, err := unstructured.NestedMap(decodeObject(t, document).Object, "spec", "nodeDisruptionPolicy")
	must(t, err)
	return policy
}

func load(t *testing.T) *Validator {
	t.Helper()
	j, err := Load(t.Context())
	must(t, err)
	return j
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func items(policy map[string]any, list string) []any {
	all, _ := policy[list].([]any)
	return all
}
