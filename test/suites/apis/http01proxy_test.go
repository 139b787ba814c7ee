// SPDX-License-Identifier: Apache-2.0

package apis

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/validator"
)

// proxyServers returns API servers with the CRD of HTTP01Proxy: as generated from the types,
// and in each revision of the proposal. The revisions are edits of the generated CRD by the
// types that the proposal and its implementation had on these dates (docs/reference/api.md).
func proxyServers(t *testing.T) map[string]*validator.Validator {
	t.Helper()
	generated := generatedCRD(t, controllerGen(t), "./pkg/apis/operator/v1alpha1")
	namespaced := func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Scope = apiextensionsv1.NamespaceScoped
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.XValidations[0].Rule = "self.metadata.name == 'default'"
	}
	servers := map[string]*validator.Validator{}
	type edit func(crd *apiextensionsv1.CustomResourceDefinition, spec *apiextensionsv1.JSONSchemaProps)
	for name, edit := range map[string]edit{
		"types": func(*apiextensionsv1.CustomResourceDefinition, *apiextensionsv1.JSONSchemaProps) {},
		"1929, January 2026": func(crd *apiextensionsv1.CustomResourceDefinition, spec *apiextensionsv1.JSONSchemaProps) {
			namespaced(crd)
			mode := spec.Properties["mode"]
			mode.Default, spec.Required = nil, []string{"mode"}
			spec.Properties["mode"] = mode
		},
		"1929, July 2026": func(crd *apiextensionsv1.CustomResourceDefinition, spec *apiextensionsv1.JSONSchemaProps) {
			namespaced(crd)
			spec.Required, spec.XValidations = []string{"mode"}, nil
			spec.Properties = map[string]apiextensionsv1.JSONSchemaProps{"mode": {
				Type: "string",
				Enum: []apiextensionsv1.JSON{{Raw: []byte(`"DefaultDeployment"`)}},
			}}
		},
		"459, September 2026": func(crd *apiextensionsv1.CustomResourceDefinition, spec *apiextensionsv1.JSONSchemaProps) {
			crd.Spec.Versions[0].Schema.OpenAPIV3Schema.XValidations[0].Rule = "self.metadata.name == 'cluster'"
			spec.Properties, spec.XValidations = nil, nil
		},
	} {
		crd := *generated.DeepCopy()
		root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		spec := root.Properties["spec"]
		edit(&crd, &spec)
		root.Properties["spec"] = spec
		servers[name] = must1(validator.New(must1(yaml.Marshal(crd))(t)))(t)
	}
	return servers
}

// proxyObject returns an HTTP01Proxy with this spec.
func proxyObject(name, spec string) []byte {
	metadata := "{name: " + name + "}"
	if name == "default" {
		metadata = "{name: default, namespace: cert-manager-operator}"
	}
	return []byte("apiVersion: operator.openshift.io/v1alpha1\nkind: HTTP01Proxy\nmetadata: " + metadata + "\nspec: " +
		spec + "\n")
}

// specCase has a spec and the error of the API server. An empty want means that the spec is
// accepted.
type specCase struct{ name, spec, want string }

func specCases() []specCase {
	const (
		union  = "spec: Invalid value: customDeployment is required when mode is CustomDeployment, and forbidden otherwise"
		modes  = `supported values: "DefaultDeployment", "CustomDeployment"`
		port   = "spec.customDeployment.internalPort"
		bounds = ": " + port + " in body should be "
	)
	custom := func(port string) string {
		return "{mode: CustomDeployment, customDeployment: {internalPort: " + port + "}}"
	}
	return []specCase{
		{"empty", "{}", ""},
		{"default", "{mode: DefaultDeployment}", ""},
		{"null mode", "{mode: null}", ""},
		{"null settings", "{mode: DefaultDeployment, customDeployment: null}", ""},
		{"custom", custom("9888"), ""},
		{"the lowest port", custom("1024"), ""},
		{"the highest port", custom("65535"), ""},
		{"a port with an exponent", custom("9.888e3"), ""},
		{"custom, empty settings", "{mode: CustomDeployment, customDeployment: {}}", ""},
		{"custom, null port", custom("null"), ""},

		{"custom without settings", "{mode: CustomDeployment}", union},
		{"custom, null settings", "{mode: CustomDeployment, customDeployment: null}", union},
		{"default with settings", "{mode: DefaultDeployment, customDeployment: {internalPort: 9888}}", union},
		{"default with empty settings", "{mode: DefaultDeployment, customDeployment: {}}", union},
		{"settings alone", "{customDeployment: {internalPort: 9888}}", union},
		{"an empty mode", `{mode: ""}`, `spec.mode: Unsupported value: "": ` + modes},
		{"a word for disabled", "{mode: Disabled}", `spec.mode: Unsupported value: "Disabled": ` + modes},
		{"a mode in lower case", "{mode: defaultdeployment}", `spec.mode: Unsupported value: "defaultdeployment": ` + modes},
		{
			"a boolean as mode", "{mode: true}",
			`spec.mode: Invalid value: "boolean": spec.mode in body must be of type string: "boolean"`,
		},
		{"a low port", custom("1023"), port + ": Invalid value: 1023" + bounds + "greater than or equal to 1024"},
		{"port zero", custom("0"), port + ": Invalid value: 0" + bounds + "greater than or equal to 1024"},
		{"a high port", custom("65536"), port + ": Invalid value: 65536" + bounds + "less than or equal to 65535"},
		{"a port as text", custom(`"9888"`), port + `: Invalid value: "string": ` + port +
			` in body must be of type integer: "string"`},
		{
			"settings as text", "{mode: CustomDeployment, customDeployment: x}",
			`spec.customDeployment: Invalid value: "string": spec.customDeployment in body must be of type object: "string"`,
		},
		{"null", "null", "spec: Required value"},
		{"text", "DefaultDeployment", `spec: Invalid value: "string": spec in body must be of type object: "string"`},
		{"an unknown field", "{mode: DefaultDeployment, port: 9888}", `unknown field "spec.port"`},
		{
			"an unknown setting", "{mode: CustomDeployment, customDeployment: {port: 9888}}",
			`unknown field "spec.customDeployment.port"`,
		},
		{
			"the field of the APIServer", "{http01ChallengeProxy: {mode: DefaultDeployment}}",
			`unknown field "spec.http01ChallengeProxy"`,
		},
	}
}

// wantProxyConfig returns the host configuration for a stored spec. The revision of
// September 2026 stores an empty one.
func wantProxyConfig(t *testing.T, stored []byte) any {
	t.Helper()
	var o struct{ Spec map[string]any }
	must(t, yaml.Unmarshal(stored, &o))
	if len(o.Spec) == 0 {
		return map[string]any{"mode": "DefaultDeployment"}
	}
	return o.Spec
}

// TestHTTP01ProxyRendererAgrees holds that the renderer rejects an HTTP01Proxy that the API
// server rejects, and renders the stored settings otherwise.
func TestHTTP01ProxyRendererAgrees(t *testing.T) {
	server, render := proxyServers(t)["types"], buildRenderer(t, "--http01proxy")
	for _, tt := range specCases() {
		t.Run(tt.name, func(t *testing.T) {
			object := proxyObject("cluster", tt.spec)
			err, got := server.Object(object), render(t, object)
			if tt.want == "" {
				stored, warnings, createErr := server.Create(object)
				if err != nil || createErr != nil || warnings != nil || got.refused {
					t.Fatalf("API server: %v %v, warnings %q; renderer: %q", err, createErr, warnings, got.messages)
				}
				if diff := cmp.Diff(wantProxyConfig(t, stored), got.config); diff != "" {
					t.Errorf("configuration (-stored +rendered):\n%s", diff)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("API server: %v, want %s", err, tt.want)
			}
			if !got.refused {
				t.Errorf("the renderer accepts it, the API server: %v", err)
			}
		})
	}
	for name, object := range map[string][]byte{
		"another name": proxyObject("mine", "{}"),
		"no spec":      []byte(strings.TrimSuffix(string(proxyObject("cluster", "")), "spec: \n")),
		"another kind": []byte(strings.Replace(string(proxyObject("cluster", "{}")), "HTTP01Proxy", "HTTP01ChallengeProxy",
			1)),
		"another version": []byte(strings.Replace(string(proxyObject("cluster", "{}")), "v1alpha1", "v1", 1)),
	} {
		if err, got := server.Object(object), render(t, object); err == nil || !got.refused {
			t.Errorf("%s: API server: %v, renderer refused: %t", name, err, got.refused)
		}
	}
}

// TestHTTP01ProxyRevisions holds that the renderer accepts each object that any revision
// accepts, with the settings that the revision stores.
func TestHTTP01ProxyRevisions(t *testing.T) {
	servers, render := proxyServers(t), buildRenderer(t, "--http01proxy")
	accepted := map[string]int{}
	for _, name := range []string{"cluster", "default"} {
		for _, tt := range specCases() {
			object := proxyObject(name, tt.spec)
			var got *renderResult
			for revision, server := range servers {
				if server.Object(object) != nil {
					continue
				}
				accepted[revision]++
				if got == nil {
					r := render(t, object)
					got = &r
				}
				stored, _, err := server.Create(object)
				must(t, err)
				if diff := cmp.Diff(wantProxyConfig(t, stored), got.config); got.refused || diff != "" {
					t.Errorf("%s, %s %s: refused: %t with %q (-stored +rendered):\n%s", revision, name, tt.spec, got.refused,
						got.messages, diff)
				}
			}
		}
	}
	want := map[string]int{"types": 10, "1929, January 2026": 8, "1929, July 2026": 1, "459, September 2026": 1}
	if diff := cmp.Diff(want, accepted); diff != "" {
		t.Errorf("accepted objects (-want +got):\n%s", diff)
	}
}
