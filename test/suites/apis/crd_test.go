// SPDX-License-Identifier: Apache-2.0

package apis

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/validator"
)

const (
	root = "../../.."
	// patchFile is the patch that an administrator passes to `oc patch`.
	patchFile = root + "/machineconfigs/crd/apiservers.config.openshift.io.patch.yaml"
	// property is the path of the field's schema in the CRD.
	property = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/http01ChallengeProxy"
)

// shippedCRDs returns the APIServer CRDs of OpenShift releases by feature set.
func shippedCRDs(ctx context.Context) (map[string][]byte, error) {
	dir, err := validator.ModuleDir(ctx, "github.com/openshift/api")
	if err != nil {
		return nil, err
	}
	crds := map[string][]byte{}
	for _, set := range []string{"Default", "OKD", "TechPreviewNoUpgrade", "DevPreviewNoUpgrade", "CustomNoUpgrade"} {
		name := "0000_10_config-operator_01_apiservers-" + set + ".crd.yaml"
		crds[set], err = os.ReadFile(filepath.Join(dir, "config/v1/zz_generated.crd-manifests", name))
		if err != nil {
			return nil, err
		}
	}
	return crds, nil
}

// patchedDocument applies a patch to a YAML document with the library of the API server
// (apiserver pkg/endpoints/handlers/patch.go).
func patchedDocument(document, patch []byte) ([]byte, error) {
	raw, err := yaml.YAMLToJSON(patch)
	if err != nil {
		return nil, err
	}
	operations, err := jsonpatch.DecodePatch(raw)
	if err != nil {
		return nil, err
	}
	object, err := yaml.YAMLToJSON(document)
	if err != nil {
		return nil, err
	}
	result, err := operations.Apply(object)
	if err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(result)
}

// apiServers has the API servers of a release with the default feature set: with the patch,
// and as shipped.
type apiServers struct{ patched, plain *validator.Validator }

var loadServers = sync.OnceValues(func() (apiServers, error) {
	crds, err := shippedCRDs(context.Background())
	if err != nil {
		return apiServers{}, err
	}
	patch, err := os.ReadFile(patchFile)
	if err != nil {
		return apiServers{}, fmt.Errorf("%w: run make crd", err)
	}
	with, err := patchedDocument(crds["Default"], patch)
	if err != nil {
		return apiServers{}, err
	}
	patched, err := validator.New(with)
	if err != nil {
		return apiServers{}, err
	}
	plain, err := validator.New(crds["Default"])
	return apiServers{patched, plain}, err
})

func testServers(t *testing.T) apiServers {
	t.Helper()
	return must1(loadServers())(t)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must1 returns the value of a call and ends the test on its error.
func must1[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return value
	}
}
