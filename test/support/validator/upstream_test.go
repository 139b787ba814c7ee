// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// suite is a file of openshift/api's own tests of a CRD, which run against a real API
// server (openshift/api tests/README.md).
type suite struct {
	CRDName string
	Tests   struct {
		OnCreate []struct{ Name, Initial, Expected, ExpectedError string }
		OnUpdate []struct{ Name, Initial, Updated, ExpectedError, ExpectedStatusError string }
	}
}

// TestUpstreamSuites holds that the validator agrees with a real API server.
func TestUpstreamSuites(t *testing.T) {
	j := testValidator(t)
	var creates, updates int
	for _, folder := range []string{"machineconfiguration/v1", "operator/v1"} {
		dir, err := ModuleDir(t.Context(), "github.com/openshift/api")
		must(t, err)
		for _, pattern := range []string{"machineconfigs.*", "machineosconfigs.*", "machineconfigurations.*"} {
			files, err := filepath.Glob(filepath.Join(dir, folder, "tests", pattern, "*.yaml"))
			must(t, err)
			for _, f := range files {
				s := readSuite(t, f)
				for _, tt := range s.Tests.OnCreate {
					creates++
					t.Run(filepath.Base(f)+"/create/"+tt.Name, func(t *testing.T) {
						got, err := j.create(withName(t, tt.Initial))
						checkUpstreamError(t, err, tt.ExpectedError)
						if err == nil {
							checkSpec(t, tt.Expected, got)
						}
					})
				}
				for _, tt := range s.Tests.OnUpdate {
					updates++
					t.Run(filepath.Base(f)+"/update/"+tt.Name, func(t *testing.T) {
						// The real API server handles spec and status in two requests.
						checkUpstreamError(t, j.Update(withName(t, tt.Initial), withName(t, tt.Updated)), tt.ExpectedError+tt.ExpectedStatusError)
					})
				}
			}
		}
	}
	if creates < 30 || updates < 15 {
		t.Errorf("found %d cases of creation and %d of updates: want more", creates, updates)
	}
}

// printed matches the offending value in an error. Its form depends on the version of the
// API server.
var printed = regexp.MustCompile(`(Invalid value: )"[^"]*"|(Duplicate value: )(map\[string\]interface \{\})?\{[^}]*\}`)

func checkUpstreamError(t *testing.T, err error, want string) {
	t.Helper()
	if err != nil {
		err = errors.New(printed.ReplaceAllString(err.Error(), "$1$2"))
	}
	checkError(t, err, strings.TrimSpace(printed.ReplaceAllString(want, "$1$2")))
}

func readSuite(t *testing.T, file string) suite {
	t.Helper()
	raw, err := os.ReadFile(file)
	must(t, err)
	var s suite
	must(t, yaml.Unmarshal(raw, &s))
	return s
}

// withName sets the name that the runner of the suites would generate.
func withName(t *testing.T, document string) []byte {
	t.Helper()
	var o map[string]any
	must(t, yaml.Unmarshal([]byte(document), &o))
	u := unstructured.Unstructured{Object: o}
	if u.GetName() == "" {
		u.SetName("cluster")
	}
	raw, err := yaml.Marshal(u.Object)
	must(t, err)
	return raw
}

func checkSpec(t *testing.T, want string, got *unstructured.Unstructured) {
	t.Helper()
	var o, g map[string]any
	raw, err := yaml.Marshal(got.Object)
	must(t, err)
	must(t, yaml.Unmarshal([]byte(want), &o))
	must(t, yaml.Unmarshal(raw, &g))
	if diff := cmp.Diff(o["spec"], g["spec"]); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}
