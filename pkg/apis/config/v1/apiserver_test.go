// SPDX-License-Identifier: Apache-2.0

package v1_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	configv1 "github.com/http01-proxyd/http01-proxyd/pkg/apis/config/v1"
)

// An empty mode is encoded, and an absent field is not. Both disable the proxy, but
// they are different.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, spec string
		want       *configv1.HTTP01ChallengeProxySpec
	}{
		{"absent", `{}`, nil},
		{
			"disabled", `{"http01ChallengeProxy":{"mode":""}}`,
			&configv1.HTTP01ChallengeProxySpec{Mode: configv1.HTTP01ChallengeProxyModeDisabled},
		},
		{
			"default", `{"http01ChallengeProxy":{"mode":"DefaultDeployment"}}`,
			&configv1.HTTP01ChallengeProxySpec{Mode: configv1.HTTP01ChallengeProxyModeDefault},
		},
		{
			"custom", `{"http01ChallengeProxy":{"mode":"CustomDeployment","customDeployment":{"internalPort":9888}}}`,
			&configv1.HTTP01ChallengeProxySpec{
				Mode:             configv1.HTTP01ChallengeProxyModeCustom,
				CustomDeployment: &configv1.HTTP01ChallengeProxyCustomDeploymentSpec{InternalPort: 9888},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var o configv1.APIServer
			text := `{"kind":"APIServer","apiVersion":"config.openshift.io/v1","metadata":{"name":"cluster"},"spec":` + tt.spec +
				`}`
			if err := json.Unmarshal([]byte(text), &o); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, o.Spec.HTTP01ChallengeProxy); diff != "" {
				t.Errorf("read (-want +got):\n%s", diff)
			}
			got, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(text, string(got)); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
		})
	}
}

// property is the part of a CRD's field that this test compares.
type property struct {
	Description      string
	Enum             []configv1.HTTP01ChallengeProxyMode
	Minimum, Maximum int
	Properties       map[string]property
	Rules            []struct{ Message string } `yaml:"x-kubernetes-validations"`
}

// TestConstants: the constants are equal to the markers from which the patch of the CRD
// is generated.
func TestConstants(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../machineconfigs/crd/apiservers.config.openshift.io.patch.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var patch []struct{ Value yaml.Node }
	if err := yaml.Load(text, &patch); err != nil {
		t.Fatal(err)
	}
	var field property
	if err := patch[len(patch)-1].Value.Decode(&field); err != nil {
		t.Fatal(err)
	}
	if len(field.Rules) != 1 || field.Rules[0].Message != configv1.HTTP01ChallengeProxyUnionMessage {
		t.Errorf("the rules are %+v", field.Rules)
	}
	modes := []configv1.HTTP01ChallengeProxyMode{
		configv1.HTTP01ChallengeProxyModeDefault,
		configv1.HTTP01ChallengeProxyModeCustom, configv1.HTTP01ChallengeProxyModeDisabled,
	}
	if diff := cmp.Diff(modes, field.Properties["mode"].Enum); diff != "" {
		t.Errorf("the modes (-constants +CRD):\n%s", diff)
	}
	port := field.Properties["customDeployment"].Properties["internalPort"]
	if port.Minimum != configv1.HTTP01ChallengeProxyMinInternalPort ||
		port.Maximum != configv1.HTTP01ChallengeProxyMaxInternalPort || !strings.Contains(port.Description, "1024 to 65535") {
		t.Errorf("the port is from %d to %d: %s", port.Minimum, port.Maximum, port.Description)
	}
}
