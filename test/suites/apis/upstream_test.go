// SPDX-License-Identifier: Apache-2.0

package apis

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/validator"
)

// suite is a file of openshift/api's own CRD tests, which run against a real API server
// (openshift/api tests/README.md).
type suite struct {
	Tests struct {
		OnCreate []struct{ Name, Initial, Expected, ExpectedError string }
		OnUpdate []struct {
			Name, Initial, Updated, Expected, ExpectedError string
		}
	}
}

// TestUpstreamSuites holds that the patch does not change the validation of other fields.
// The feature set for developers has all of them.
func TestUpstreamSuites(t *testing.T) {
	crds := must1(shippedCRDs(t.Context()))(t)
	crd := must1(patchedDocument(crds["DevPreviewNoUpgrade"], must1(os.ReadFile(patchFile))(t)))(t)
	server := must1(validator.New(crd))(t)
	dir := must1(validator.ModuleDir(t.Context(), "github.com/openshift/api"))(t)
	files, err := filepath.Glob(filepath.Join(dir, "config/v1/tests/apiservers.config.openshift.io/*.yaml"))
	must(t, err)
	var creates, updates int
	for _, f := range files {
		var s suite
		must(t, yaml.Unmarshal(must1(os.ReadFile(f))(t), &s))
		for _, tt := range s.Tests.OnCreate {
			creates++
			t.Run(filepath.Base(f)+"/create/"+tt.Name, func(t *testing.T) {
				stored, _, err := server.Create(withName(t, tt.Initial))
				checkUpstreamCase(t, err, tt.ExpectedError, tt.Expected, stored)
			})
		}
		for _, tt := range s.Tests.OnUpdate {
			updates++
			t.Run(filepath.Base(f)+"/update/"+tt.Name, func(t *testing.T) {
				// The changes of the CRD in these cases only let the initial object be
				// stored. Replace accepts it as stored.
				stored, _, err := server.Replace(withName(t, tt.Initial), withName(t, tt.Updated))
				checkUpstreamCase(t, err, tt.ExpectedError, tt.Expected, stored)
			})
		}
	}
	if creates < 30 || updates < 10 {
		t.Errorf("found %d cases of creation and %d of updates: want more", creates, updates)
	}
}

// printedValue matches the offending value in an error. Its form depends on the version of
// the API server.
var printedValue = regexp.MustCompile(`(Invalid value: )("[^"]*": ?|\{[^}]*\}: ?)?`)

func checkUpstreamCase(t *testing.T, err error, want, expected string, stored []byte) {
	t.Helper()
	want = strings.TrimSpace(printedValue.ReplaceAllString(want, "$1"))
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && err == nil:
		t.Errorf("accepted, want: %s", want)
	case want != "" && !strings.Contains(printedValue.ReplaceAllString(err.Error(), "$1"), want):
		t.Errorf("error: %v\nwant: %s", err, want)
	case want == "":
		if diff := cmp.Diff(specOf(t, []byte(expected)), specOf(t, stored)); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
	}
}

// withName sets the name that the runner of the suites would generate.
func withName(t *testing.T, document string) []byte {
	t.Helper()
	raw := must1(yaml.YAMLToJSON([]byte(document)))(t)
	if bytes.Contains(raw, []byte(`"name":"cluster"`)) {
		return raw
	}
	var o map[string]any
	must(t, json.Unmarshal(raw, &o))
	o["metadata"] = map[string]any{"name": "cluster"}
	return must1(json.Marshal(o))(t)
}
