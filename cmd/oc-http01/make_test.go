// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
)

// TestMake: the flags that `make machineconfigs` passes for its variables.
func TestMake(t *testing.T) {
	t.Parallel()
	const missing = "IMAGE is required: give IMAGE=registry.example.com/name@sha256:...; without it, only the example " +
		"in machineconfigs can be rendered.  Stop."
	const empty = "IMAGE is empty: give IMAGE=registry.example.com/name@sha256:..., or remove it to render the " +
		"example.  Stop."
	example := []string{"--image", machineconfig.ExampleImage, "--output-dir", "machineconfigs"}
	for name, tt := range map[string]struct {
		env, args []string
		want      []string
		refused   string
	}{
		"nothing": {nil, nil, example, ""},
		"the folder, dotted": {nil, []string{"OUT=./machineconfigs/"}, []string{
			"--image", machineconfig.ExampleImage,
			"--output-dir", "./machineconfigs/",
		}, ""},
		"example elsewhere": {nil, []string{"OUT=other"}, nil, missing},
		"all": {
			nil,
			[]string{"IMAGE=i", "CONFIG=c", "POOL=p", "SUMS=s", "SIGNATURE_POLICY=k", "OUT=o"},
			[]string{
				"--image", "i", "--config", "c", "--pool", "p", "--sums", "s", "--signature-policy", "k", "--output-dir", "o",
			},
			"",
		},
		"what the cluster has": {
			nil,
			[]string{"IMAGE=i", "TRUSTED_CA=t", "PROXY=x", "CLUSTER_DOMAIN=d", "APISERVER=a", "INFRASTRUCTURE=n", "OUT=o"},
			[]string{
				"--image", "i", "--trusted-ca", "t", "--proxy", "x", "--cluster-domain", "d", "--apiserver", "a",
				"--infrastructure", "n", "--output-dir", "o",
			},
			"",
		},
		"an HTTP01Proxy": {
			nil,
			[]string{"IMAGE=i", "HTTP01PROXY=p", "INFRASTRUCTURE=n", "ALLOW_DISABLED=1", "OUT=o"},
			[]string{"--image", "i", "--http01proxy", "p", "--infrastructure", "n", "--allow-disabled", "--output-dir", "o"},
			"",
		},
		"a List, exported": {[]string{"IMAGE=i", "APISERVER=list"}, []string{"OUT=o"}, []string{
			"--image", "i", "--apiserver",
			"list", "--output-dir", "o",
		}, ""},
		"no objects": {
			nil,
			[]string{"IMAGE=i", "APISERVER=", "INFRASTRUCTURE=", "OUT=o"},
			[]string{"--image", "i", "--apiserver", "", "--infrastructure", "", "--output-dir", "o"},
			"",
		},
		"empty": {
			nil,
			[]string{"IMAGE=i", "SUMS=", "CONFIG=", "POOL=", "OUT="},
			[]string{"--image", "i", "--config", "", "--pool", "", "--sums", "", "--output-dir", ""},
			"",
		},
		"empty image": {nil, []string{"IMAGE=", "OUT=o"}, nil, empty},
		"empty, not used": {
			[]string{"IMAGE="},
			[]string{"LAYERED=yes", "OUT=o"},
			[]string{"--layered", "--output-dir", "o"},
			"",
		},
		"layered": {
			[]string{"IMAGE=i"},
			[]string{"LAYERED=yes", "CONFIG=c", "OUT=o"},
			[]string{"--config", "c", "--layered", "--output-dir", "o"},
			"",
		},
		"not layered": {
			nil,
			[]string{"IMAGE=i", "LAYERED=no", "FCOS=false", "OUT=o"},
			[]string{"--image", "i", "--output-dir", "o"},
			"",
		},
		"fcos": {[]string{"IMAGE=i"}, []string{"FCOS=yes", "BIN=b", "OUT=o"}, []string{
			"--fcos", "--binary",
			"b/http01-proxyd", "--output-dir", "o",
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath("make")
			must(t, err)
			// A shell function replaces the tool and prints its arguments.
			args := slices.Concat([]string{
				"--no-print-directory", "--directory=../..",
				"GO=each() { printf '%s\\n' \"$$@\"; }; each", "machineconfigs",
			}, tt.args)
			cmd := exec.CommandContext(t.Context(), path, args...)
			cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, tt.env...) // and nothing of a make that runs this
			var out, stderr strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &stderr
			err = cmd.Run()
			if tt.refused != "" {
				if err == nil || !strings.Contains(stderr.String(), tt.refused) {
					t.Errorf("%v: %s%s", err, out.String(), stderr.String())
				}
				return
			}
			if err != nil {
				t.Fatalf("%v: %s", err, stderr.String())
			}
			want := append([]string{"run", "./cmd/oc-http01", "render"}, tt.want...)
			if diff := cmp.Diff(want, strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
