// SPDX-License-Identifier: Apache-2.0

package disruption_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/disruption"
)

// FuzzMerge: whatever is in the policy already, nothing foreign is lost,
// reordered or changed by a merge or a removal, and both settle at once.
func FuzzMerge(f *testing.F) {
	for _, seed := range []string{
		object("", ""), object(foreignFiles, foreignUnits), object(ourFiles, foreignUnits+ourUnits), asJSON(object(foreignFiles, "")),
		head + "spec: {nodeDisruptionPolicy: {files: [{path: /etc/x, actions: [{type: None}]}], units: }}\n",
		head + "spec:\n  a: &a [1, 2]\n  b: *a\n  # c\n\n  d: |+\n    x\n\n  e: >-\n    y\n    z\n",
		head + "spec:\n  nodeDisruptionPolicy:\n    units:\n    - name: http01-proxyd.service\n      actions: null\n",
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, current string, force bool) {
		policy := disruption.InstallerPolicy()
		merged, err := policy.Merge("c", []byte(current), force)
		if err != nil {
			return
		}
		same(t, current, string(merged.Text))
		if again, err := policy.Merge("c", merged.Text, false); err != nil || len(again.Changes) > 0 || string(again.Text) != string(merged.Text) {
			t.Errorf("a second merge: %v, %q", err, again.Changes)
		}
		removed, err := policy.Remove("c", merged.Text)
		if err != nil {
			t.Fatalf("removal from what was merged: %v\n%s", err, merged.Text)
		}
		same(t, current, string(removed.Text))
		if ours := keys(t, string(removed.Text), true); len(ours) > 0 {
			t.Errorf("ours after a removal: %q", ours)
		}
		if ours := keys(t, string(merged.Text), true); len(ours) != 7 {
			t.Errorf("ours after a merge: %q", ours)
		}
	})
}

// decode reads an object the way that its form asks for.
func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	var object map[string]any
	if strings.HasPrefix(strings.TrimSpace(text), "{") && json.Unmarshal([]byte(text), &object) == nil {
		return object
	}
	object = nil
	if err := yaml.Load([]byte(text), &object); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return object
}

func isOurs(key string) bool {
	return slices.Contains([]string{
		"/etc/http01-proxyd", "/usr/local/bin/http01-proxyd-install", "/usr/local/lib/systemd/catalog/http01-proxyd.catalog",
		"http01-proxyd.service", "http01-proxyd-table.service", "http01-proxyd-install.service", "http01-proxyd-install.timer",
	}, key)
}

// keys gives the keys of both lists in their order, ours or the others.
func keys(t *testing.T, text string, ours bool) []string {
	t.Helper()
	spec, _ := decode(t, text)["spec"].(map[string]any)
	policy, _ := spec["nodeDisruptionPolicy"].(map[string]any)
	var out []string
	for list, name := range map[string]string{"files": "path", "units": "name"} {
		entries, _ := policy[list].([]any)
		for _, entry := range entries {
			fields, _ := entry.(map[string]any)
			if key, _ := fields[name].(string); isOurs(key) == ours {
				out = append(out, list+" "+key)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return strings.Compare(a[:5], b[:5]) })
	return out
}

// same wants all foreign entries in their order, and everything outside the
// two lists unchanged.
func same(t *testing.T, before, after string) {
	t.Helper()
	if old, changed := keys(t, before, false), keys(t, after, false); !slices.Equal(old, changed) {
		t.Errorf("foreign entries %q became %q", old, changed)
	}
	strip := func(text string) map[string]any {
		object := decode(t, text)
		spec, _ := object["spec"].(map[string]any)
		policy, _ := spec["nodeDisruptionPolicy"].(map[string]any)
		delete(policy, "files")
		delete(policy, "units")
		if len(policy) == 0 {
			delete(spec, "nodeDisruptionPolicy")
		}
		if len(spec) == 0 {
			delete(object, "spec")
		}
		return object
	}
	if old, changed := strip(before), strip(after); !reflect.DeepEqual(old, changed) {
		t.Errorf("outside of the lists\n%v\nbecame\n%v", old, changed)
	}
}
