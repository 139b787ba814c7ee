// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	repository = "../../.."
	manifests  = repository + "/machineconfigs/monitoring"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shippedFile returns the text of a file below machineconfigs/monitoring.
func shippedFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(manifests, filepath.FromSlash(name)))
	must(t, err)
	return text
}

// decodeStrict decodes YAML and rejects unknown and repeated fields, as the API server does
// for oc.
func decodeStrict(t *testing.T, text []byte, into any) {
	t.Helper()
	must(t, yaml.UnmarshalStrict(text, into))
}
