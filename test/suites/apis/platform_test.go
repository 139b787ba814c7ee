// SPDX-License-Identifier: Apache-2.0

package apis

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/validator"
	"sigs.k8s.io/yaml"
)

// schema has the property names of a CRD's schema.
type schema struct {
	Properties map[string]schema `json:"properties"`
}

// schemas returns the schemas of a resource in every feature set.
func schemas(t *testing.T, plural string) map[string]schema {
	t.Helper()
	dir := must1(validator.ModuleDir(t.Context(), "github.com/openshift/api"))(t)
	files, err := filepath.Glob(filepath.Join(dir, "config/v1/zz_generated.crd-manifests/*_"+plural+"-*.crd.yaml"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d CRDs of %s: %v", len(files), plural, err)
	}
	all := map[string]schema{}
	for _, file := range files {
		var crd struct {
			Spec struct {
				Versions []struct {
					Schema struct {
						OpenAPIV3Schema schema `json:"openAPIV3Schema"`
					} `json:"schema"`
				} `json:"versions"`
			} `json:"spec"`
		}
		must(t, yaml.Unmarshal(must1(os.ReadFile(file))(t), &crd))
		all[filepath.Base(file)] = crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	}
	return all
}

// allFieldsNull returns an object with every field of the schema, all null.
func allFieldsNull(s schema) map[string]any {
	all := map[string]any{}
	for key := range s.Properties {
		all[key] = nil
	}
	return all
}

// TestRendererAcceptsPlatformFields holds that the renderer accepts with --strict every
// field that an object has in any feature set.
func TestRendererAcceptsPlatformFields(t *testing.T) {
	render := buildRenderer(t, "--apiserver")
	for set, s := range schemas(t, "apiservers") {
		t.Run(set, func(t *testing.T) {
			spec := allFieldsNull(s.Properties["spec"])
			if len(spec) < 5 {
				t.Fatalf("the CRD has only %v", spec)
			}
			spec["http01ChallengeProxy"] = map[string]any{"mode": "DefaultDeployment"}
			all := append([]byte(head), must1(yaml.Marshal(map[string]any{"spec": spec, "status": allFieldsNull(s.Properties["status"])}))(t)...)
			if got := render(t, all, "--strict"); got.refused {
				t.Errorf("the renderer reports %q for\n%s", got.messages, all)
			}
		})
	}
	types := map[string]string{"baremetal": "BareMetal", "openstack": "OpenStack", "vsphere": "VSphere", "nutanix": "Nutanix", "ovirt": "oVirt"}
	for set, s := range schemas(t, "infrastructures") {
		for key, platform := range types {
			t.Run(set+" "+key, func(t *testing.T) {
				status := allFieldsNull(s.Properties["status"])
				platforms := allFieldsNull(s.Properties["status"].Properties["platformStatus"])
				one := allFieldsNull(s.Properties["status"].Properties["platformStatus"].Properties[key])
				if len(one) < 5 {
					t.Fatalf("the CRD has only %v", one)
				}
				one["loadBalancer"] = allFieldsNull(s.Properties["status"].Properties["platformStatus"].Properties[key].Properties["loadBalancer"])
				one["apiServerInternalIPs"], one["ingressIPs"] = []string{"192.0.2.5"}, []string{"192.0.2.6"}
				platforms["type"], platforms[key], status["platformStatus"] = platform, one, platforms
				file := filepath.Join(t.TempDir(), "all.yaml")
				all := must1(yaml.Marshal(map[string]any{
					"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": map[string]any{"name": "cluster"}, "status": status,
				}))(t)
				must(t, os.WriteFile(file, all, 0o600))
				if got := render(t, objectWith("{mode: DefaultDeployment}"), "--strict", "--infrastructure", file); got.refused {
					t.Errorf("the renderer refuses\n%s", all)
				}
			})
		}
	}
}
