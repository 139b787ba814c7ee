// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
)

// TestClusterObjects reads the objects from two files, or from one List on standard
// input.
func TestClusterObjects(t *testing.T) {
	t.Parallel()
	files := []string{"testdata/apiserver.yaml", "testdata/infrastructure.yaml"}
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: List\nitems:\n")
	for _, file := range files {
		text := must1(os.ReadFile(file))(t)
		b.WriteString("- " + strings.ReplaceAll(strings.TrimSuffix(string(text), "\n"), "\n", "\n  ") + "\n")
	}
	list := b.String()
	for name, tt := range map[string]struct {
		in   string
		args []string
		err  string
	}{
		"two files": {
			"",
			[]string{"--apiserver", files[0], "--infrastructure", files[1]},
			"note: testdata/apiserver.yaml: CustomDeployment, port 9888; testdata/infrastructure.yaml: API VIP 192.0.2.5 and " +
				"2001:db8::5, ingress VIP 192.0.2.6 and 2001:db8::6\n",
		},

		"one file, called in two ways": {
			"",
			[]string{"--apiserver", "testdata/cluster.yaml", "--infrastructure", "./testdata/../testdata/cluster.yaml"},
			"note: testdata/cluster.yaml: CustomDeployment, port 9888; testdata/cluster.yaml: API VIP 192.0.2.5 and " +
				"2001:db8::5, ingress VIP 192.0.2.6 and 2001:db8::6\n",
		},
		"a List for both": {
			list,
			[]string{"--apiserver", "-", "--infrastructure", "-"},
			"note: standard input: CustomDeployment, port 9888; standard input: API VIP 192.0.2.5 and 2001:db8::5, ingress " +
				"VIP 192.0.2.6 and 2001:db8::6\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runLine(t, tt.in, append([]string{"render", "--image", image, "--output-dir", t.TempDir()}, tt.args...)...)
			if diff := cmp.Diff(tt.err, got.err); got.code != cli.OK || diff != "" {
				t.Errorf("%+v (-want +got):\n%s", got, diff)
			}
		})
	}
}

// TestHelpExampleEnables runs the example in the help that renders from the cluster's
// objects. It writes an HTTP01Proxy that enables the proxy.
func TestHelpExampleEnables(t *testing.T) {
	t.Parallel()
	_, example, found := strings.Cut(runLine(t, "", "render", "--help").out, "\n  printf ")
	example, _, ended := strings.Cut(example, "\n  oc get infrastructure")
	if !found || !ended {
		t.Fatal("the help has no example with an object")
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "printf "+example)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := runLine(t, "", "render", "--image", image, "--http01proxy", filepath.Join(dir, "http01proxy.yaml"),
		"--infrastructure", "testdata/infrastructure.yaml", "--output-dir", filepath.Join(dir, "rendered"))
	if want := "http01proxy.yaml: DefaultDeployment, port 8888; "; got.code != cli.OK || !strings.Contains(got.err, want) {
		t.Errorf("%+v", got)
	}
}

// TestOverlayFromObject: an HTTP01Proxy gives an overlay a configuration of its own, as
// every other input for it does. One file has all objects.
func TestOverlayFromObject(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	all := filepath.Join(dir, "all.yaml")
	var text strings.Builder
	text.WriteString("apiVersion: v1\nkind: List\nitems:\n")
	for _, file := range []string{"testdata/http01proxy.yaml", "testdata/infrastructure.yaml"} {
		object := strings.TrimSpace(string(must1(os.ReadFile(file))(t)))
		text.WriteString("- " + strings.ReplaceAll(object, "\n", "\n  ") + "\n")
	}
	must(t, os.WriteFile(all, []byte(text.String()), 0o600))
	got := runLine(t, "", "render", "--layout", "kustomize", "--cluster", "paris1", "--http01proxy", all, "--output-dir",
		dir)
	configs, err := filepath.Glob(filepath.Join(dir, "overlays", "paris1", "*-config.yaml"))
	if got.code != cli.OK || err != nil || len(configs) != 1 {
		t.Errorf("%+v; %q, %v", got, configs, err)
	}
}
