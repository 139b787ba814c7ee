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

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// infrastructure is the Infrastructure of a cluster with keepalived VIPs.
const infrastructure = `apiVersion: config.openshift.io/v1
kind: Infrastructure
metadata: {name: cluster}
status:
  platformStatus:
    type: BareMetal
    baremetal: {apiServerInternalIPs: [192.0.2.5], ingressIPs: [192.0.2.6]}
`

// renderResult is the result of `oc-http01 render`.
type renderResult struct {
	refused  bool
	config   any // configuration for the hosts
	messages string
}

// buildRenderer builds oc-http01 and returns a function that runs it as an administrator does.
// The flag belongs to the object with the mode. Absent settings are accepted, as by the API
// server.
func buildRenderer(t *testing.T, flag string) func(t *testing.T, object []byte, flags ...string) renderResult {
	t.Helper()
	program, err := lab.BuildCommand(t.Context(), "oc-http01")
	must(t, err)
	return func(t *testing.T, object []byte, flags ...string) renderResult {
		t.Helper()
		dir := t.TempDir()
		for name, text := range map[string][]byte{"a.yaml": object, "i.yaml": []byte(infrastructure)} {
			must(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		}
		var stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), program, append([]string{
			"render", "--layered", "--allow-disabled", flag, "a.yaml", "--infrastructure", "i.yaml", "--output-dir", "out",
		}, flags...)...)
		cmd.Dir, cmd.Stderr = dir, &stderr
		err := cmd.Run()
		var r renderResult
		r.messages = stderr.String()
		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit) && exit.ExitCode() == 1:
			if _, err := os.Stat(filepath.Join(dir, "out")); err == nil {
				t.Error("render refused the object and wrote output")
			}
			r.refused = true
		case err != nil:
			t.Fatalf("%v\n%s", err, stderr.Bytes())
		default:
			r.config = readRenderedConfig(t, filepath.Join(dir, "out"))
		}
		return r
	}
}

// readRenderedConfig returns the API fields of the rendered host configuration.
func readRenderedConfig(t *testing.T, dir string) any {
	t.Helper()
	text := must1(lab.RenderedConfig(dir))(t)
	var all map[string]any
	must(t, yaml.Unmarshal(text, &all))
	if all["mode"] == "" && all["vips"] != nil || all["mode"] != "" && all["vips"] == nil {
		t.Errorf("the VIPs do not match the mode:\n%s", text)
	}
	delete(all, "vips")
	delete(all, "hosts")
	return all
}

// acceptedByRenderer lists the objects that only the API server rejects, with the reason. The
// renderer reads stored objects, which the API server validated.
func acceptedByRenderer() map[string]string {
	const notRead = "the renderer does not read the other fields of the object"
	return map[string]string{
		"beside spec": notRead, "in the status": notRead, "in another case": notRead, "misspelt": notRead,
		"beside an unknown one": notRead,
		"no spec":               notRead, "null spec": notRead, "in a namespace": notRead,
	}
}

// TestRendererAgrees holds that the renderer rejects settings that the API server rejects. It
// accepts what the API server accepts, and renders what it stores.
func TestRendererAgrees(t *testing.T) {
	render, differ := buildRenderer(t, "--apiserver"), acceptedByRenderer()
	agrees := func(t *testing.T, name string, document []byte, accepted bool, stored string) {
		t.Helper()
		got := render(t, document)
		reason, differs := differ[name]
		delete(differ, name)
		if got.refused == (accepted || differs) {
			t.Fatalf("refused: %t with %q, accepted by the API server: %t %s", got.refused, got.messages, accepted, reason)
		}
		if accepted {
			if diff := cmp.Diff(wantConfig(t, []byte(stored)), got.config); diff != "" {
				t.Errorf("configuration (-stored +rendered):\n%s", diff)
			}
		}
		if got.refused && !strings.HasPrefix(got.messages, "oc http01 render: a.yaml") {
			t.Errorf("messages %q", got.messages)
		}
	}
	for _, tt := range objectCases() {
		t.Run(tt.name, func(t *testing.T) {
			agrees(t, tt.name, objectWith(tt.value), tt.want == "", string(objectWith(tt.storedField())))
		})
	}
	for _, tt := range wholeCases() {
		t.Run(tt.name, func(t *testing.T) {
			agrees(t, tt.name, []byte(tt.object), tt.want == "", tt.object)
		})
	}
	for name, reason := range differ {
		t.Errorf("no case has the name %q: %s", name, reason)
	}
}

// wantConfig returns the host configuration for a stored object. An absent field means
// disabled.
func wantConfig(t *testing.T, document []byte) any {
	t.Helper()
	if value := proxyField(t, document); value != nil {
		return value
	}
	return map[string]any{"mode": ""}
}

// TestRendererReadsStoredObjects renders objects as the API server prints them. An object
// stored without the patch renders to disabled.
func TestRendererReadsStoredObjects(t *testing.T) {
	render := buildRenderer(t, "--apiserver")
	for name, value := range fieldStates() {
		t.Run(name, func(t *testing.T) {
			stored := must1(testServers(t).patched.Apply(nil, objectWith(value), "admin", false))(t)
			if !bytes.Contains(stored, []byte("managedFields")) {
				t.Fatalf("the object has no managedFields:\n%s", stored)
			}
			if got := render(t, stored); got.refused || !cmp.Equal(wantConfig(t, stored), got.config) {
				t.Errorf("%+v", got)
			}
			plain, _, err := testServers(t).plain.Create(objectWith(value))
			must(t, err)
			if got := render(t, plain); got.refused || !cmp.Equal(map[string]any{"mode": ""}, got.config) {
				t.Errorf("without the patch: %+v", got)
			}
		})
	}
}
