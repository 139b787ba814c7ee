// SPDX-License-Identifier: Apache-2.0

package apis

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/validator"
)

// nestedSchema has the property names of a CRD's schema at each level.
type nestedSchema struct {
	Properties map[string]nestedSchema `json:"properties"`
	Items      *nestedSchema           `json:"items"`
}

// example returns a value with every field, each list with one element, and null for all
// other values.
func (s nestedSchema) example() any {
	switch {
	case s.Items != nil:
		return []any{s.Items.example()}
	case len(s.Properties) == 0:
		return nil
	}
	all := map[string]any{}
	for key, property := range s.Properties {
		all[key] = property.example()
	}
	return all
}

// TestPreflightFields holds that the CRDs of any feature set have the fields that preflight
// reads, and that preflight accepts objects with all fields.
func TestPreflightFields(t *testing.T) {
	program := must1(lab.BuildCommand(t.Context(), "oc-http01"))(t)
	dir := must1(validator.ModuleDir(t.Context(), "github.com/openshift/api"))(t)
	count := 0
	for pattern, read := range map[string][]string{
		"operator/v1/zz_generated.crd-manifests/*_machineconfigurations*.crd.yaml": {"spec.nodeDisruptionPolicy.files[].actions[].restart.serviceName", "status.nodeDisruptionPolicyStatus.clusterPolicies.units[].name"},
		"machineconfiguration/v1/zz_generated.crd-manifests/*_machineconfigpools*.crd.yaml": {
			"spec.paused",
			"status.conditions[].message",
		},
		"machineconfiguration/v1/zz_generated.crd-manifests/*_machineosconfigs*.crd.yaml":       {"spec.machineConfigPool.name"},
		"machineconfiguration/v1/zz_generated.crd-manifests/*_machineconfigs.crd.yaml":          {"spec.config"},
		"config/v1/zz_generated.crd-manifests/*_apiservers*.crd.yaml":                           {"spec.servingCerts.namedCertificates[].names"},
		"config/v1/zz_generated.crd-manifests/*_clusterversions-SelfManagedHA-Default.crd.yaml": {"status.history[].version"},
	} {
		for _, file := range must1(filepath.Glob(filepath.Join(dir, pattern)))(t) {
			count++
			t.Run(filepath.Base(file), func(t *testing.T) {
				var crd struct {
					Spec struct {
						Group    string
						Names    struct{ Kind string }
						Versions []struct {
							Name   string
							Schema struct {
								OpenAPIV3Schema nestedSchema `json:"openAPIV3Schema"`
							}
						}
					}
				}
				must(t, yaml.Unmarshal(must1(os.ReadFile(file))(t), &crd))
				object, _ := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.example().(map[string]any)
				object["apiVersion"], object["kind"] = crd.Spec.Group+"/"+crd.Spec.Versions[0].Name, crd.Spec.Names.Kind
				object["metadata"] = map[string]any{"name": "cluster", "generation": 1}
				for _, path := range read { // the field that preflight reads is in the example
					at := any(object)
					for key := range strings.SplitSeq(strings.ReplaceAll(path, "[]", ".0"), ".") {
						if list, is := at.([]any); is && key == "0" {
							at = list[0]
							continue
						}
						fields, _ := at.(map[string]any)
						value, has := fields[key]
						if !has {
							t.Fatalf("no %s in the CRD", path)
						}
						at = value
					}
				}
				name := filepath.Join(t.TempDir(), "a.yaml")
				must(t, os.WriteFile(name, must1(yaml.Marshal(object))(t), 0o600))
				var stderr bytes.Buffer
				cmd := exec.CommandContext(t.Context(), program, "preflight", name)
				cmd.Stderr = &stderr
				var exit *exec.ExitError
				if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() < 3 { // 3 or 4: examined
					t.Errorf("%v: %s", err, stderr.String())
				}
			})
		}
	}
	if count < 5 {
		t.Errorf("only %d CRDs", count)
	}
}
