// SPDX-License-Identifier: Apache-2.0

package apis

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/validator"
	"sigs.k8s.io/yaml"
)

func apiDocument(t *testing.T) string {
	t.Helper()
	return string(must1(os.ReadFile(root + "/docs/reference/api.md"))(t))
}

// TestDocumentedObjects holds that the API server accepts every YAML block of docs/reference/api.md,
// and that together they show every mode.
func TestDocumentedObjects(t *testing.T) {
	seen := map[string]bool{}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(apiDocument(t), -1)
	for _, b := range blocks {
		block := []byte(b[1])
		var o struct {
			Kind string
			Spec struct {
				HTTP01ChallengeProxy *struct{ Mode string }
			}
		}
		if err := yaml.Unmarshal(block, &o); err != nil {
			t.Fatalf("%v:\n%s", err, block)
		}
		switch {
		case o.Kind == "ClusterVersion":
			checkOverrides(t, block)
		case o.Kind == "HTTP01Proxy":
			if err := proxyServers(t)["types"].Object(block); err != nil {
				t.Errorf("%v:\n%s", err, block)
			}
		case o.Spec.HTTP01ChallengeProxy == nil:
			t.Errorf("not an APIServer with the field, an HTTP01Proxy or a ClusterVersion:\n%s", block)
		default:
			seen[o.Spec.HTTP01ChallengeProxy.Mode] = true
			if err := testServers(t).patched.Object(block); err != nil {
				t.Errorf("%v:\n%s", err, block)
			}
		}
	}
	for _, mode := range []string{"DefaultDeployment", "CustomDeployment", ""} {
		if !seen[mode] {
			t.Errorf("no example has mode %q", mode)
		}
	}
}

// checkOverrides applies the block to a cluster that has other overrides, and removes it
// again.
func checkOverrides(t *testing.T, block []byte) {
	t.Helper()
	dir := must1(validator.ModuleDir(t.Context(), "github.com/openshift/api"))(t)
	crd := must1(os.ReadFile(filepath.Join(dir,
		"config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusterversions-Default.crd.yaml")))(t)
	j := must1(validator.New(crd))(t)
	const live = `{apiVersion: config.openshift.io/v1, kind: ClusterVersion, metadata: {name: version}, spec: {
  clusterID: 00000000-0000-0000-0000-000000000000,
  overrides: [{kind: Deployment, group: apps, namespace: a, name: a, unmanaged: true}]}}`
	both := must1(j.Apply([]byte(live), block, "http01-proxyd", false))(t)
	for _, want := range []string{"kind: Deployment", "name: apiservers.config.openshift.io", "clusterID"} {
		if !strings.Contains(string(both), want) {
			t.Errorf("%s is missing after the apply:\n%s", want, both)
		}
	}
	if !strings.Contains(apiDocument(t), "`overrides: []`") {
		t.Error("the document does not show how to remove the override")
	}
	none := []byte(string(block[:strings.Index(string(block), "overrides:")]) + "overrides: []\n")
	back := must1(j.Apply(both, none, "http01-proxyd", false))(t)
	if s := specOf(t, back); !strings.Contains(s, "Deployment") || strings.Contains(s, "apiservers") {
		t.Errorf("after the removal:\n%s", s)
	}
}

func specOf(t *testing.T, document []byte) string {
	t.Helper()
	var o struct{ Spec map[string]any }
	must(t, yaml.Unmarshal(document, &o))
	return string(must1(yaml.Marshal(o.Spec))(t))
}

// TestDocumentedPatches holds that every documented merge patch leads to its state from
// every other state.
func TestDocumentedPatches(t *testing.T) {
	patches := regexp.MustCompile(`(?m)^oc patch apiserver cluster --type=merge -p '(.*)'$`).FindAllStringSubmatch(
		apiDocument(t), -1)
	reached := map[string]bool{}
	for _, p := range patches {
		for from, value := range fieldStates() {
			stored, warnings, err := testServers(t).patched.Replace(objectWith(value), mergePatched(t, objectWith(value), p[1]))
			if err != nil || warnings != nil {
				t.Errorf("%s, from %s: %v, warnings %q", p[1], from, err, warnings)
				continue
			}
			reached[string(must1(yaml.Marshal(proxyField(t, stored)))(t))] = true
		}
	}
	if len(patches) != 4 || len(reached) != 4 {
		t.Errorf("%d patches lead to %d states: %v", len(patches), len(reached), reached)
	}
}

// TestDocumentedMessages holds that the API server returns every message that the document
// quotes, and that the named files exist.
func TestDocumentedMessages(t *testing.T) {
	_, table, _ := strings.Cut(apiDocument(t), "These values are rejected:\n\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var got []string
	for _, value := range []string{"{mode: CustomDeployment}", "{}", "{mode: Disabled}", customField("80")} {
		err := testServers(t).patched.Object(objectWith(value))
		if err == nil {
			t.Fatalf("%s is accepted", value)
		}
		got = append(got, err.Error())
	}
	got = append(got, testServers(t).plain.Object(objectWith("{mode: DefaultDeployment}")).Error())
	quoted := regexp.MustCompile("(?m)^- `([^`]+)`: ").FindAllStringSubmatch(table, -1)
	if len(quoted) != len(got) {
		t.Errorf("%d messages are quoted, want %d", len(quoted), len(got))
	}
	for _, q := range quoted {
		if !strings.Contains(strings.Join(got, "\n"), q[1]) {
			t.Errorf("no error of the API server contains %q", q[1])
		}
	}
	if name := strings.TrimPrefix(patchFile, root+"/"); !strings.Contains(apiDocument(t), "--patch-file="+name+"\n") {
		t.Errorf("no command applies %s", name)
	}
}
