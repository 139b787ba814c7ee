// SPDX-License-Identifier: Apache-2.0

package disruption_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/disruption"
)

func TestUncovered(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		policy       disruption.Policy
		paths, units []string
		want         []string
	}{
		"nothing":   {disruption.InstallerPolicy(), nil, nil, nil},
		"ours":      {disruption.InstallerPolicy(), []string{"/etc/http01-proxyd/config.yaml", "/usr/local/bin/http01-proxyd-install"}, []string{"http01-proxyd.service", "http01-proxyd-table.service", "http01-proxyd-install.service", "http01-proxyd-install.timer"}, nil},
		"layered":   {disruption.LayeredPolicy(), []string{"/etc/http01-proxyd/ca-bundle.crt"}, nil, nil},
		"below":     {disruption.InstallerPolicy(), []string{"/etc/http01-proxyd/conf.d/a"}, nil, nil},
		"beside":    {disruption.InstallerPolicy(), []string{"/etc/http01-proxyd.yaml", "/usr/local/bin/http01-proxyd", "/etc"}, nil, []string{"/etc/http01-proxyd.yaml", "/usr/local/bin/http01-proxyd", "/etc"}},
		"a unit":    {disruption.InstallerPolicy(), nil, []string{"x.service"}, []string{"x.service"}},
		"no suffix": {disruption.InstallerPolicy(), nil, []string{"http01-proxyd"}, []string{"http01-proxyd"}},
	} {
		if diff := cmp.Diff(tt.want, tt.policy.Uncovered(tt.paths, tt.units)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestManifest: the object contains the policy and no other field, since server-side
// apply would take ownership of every field.
func TestManifest(t *testing.T) {
	t.Parallel()
	none := []any{map[string]any{"type": "None"}}
	configuration := map[string]any{"path": "/etc/http01-proxyd", "actions": none}
	script := map[string]any{"path": "/usr/local/bin/http01-proxyd-install", "actions": none}
	catalog := map[string]any{"path": "/usr/local/lib/systemd/catalog/http01-proxyd.catalog", "actions": none}
	sos := map[string]any{"path": "/etc/sos/extras.d/http01-proxyd", "actions": none}
	reload := map[string]any{"type": "DaemonReload"}
	install := []any{reload, map[string]any{"type": "Restart", "restart": map[string]any{"serviceName": "http01-proxyd-install.service"}}}
	for name, tt := range map[string]struct {
		text func() ([]byte, error)
		want map[string]any
	}{
		"installer": {disruption.InstallerPolicy().Manifest, map[string]any{"nodeDisruptionPolicy": map[string]any{
			"files": []any{configuration, script, catalog, sos},
			"units": []any{
				map[string]any{"name": "http01-proxyd.service", "actions": install},
				map[string]any{"name": "http01-proxyd-table.service", "actions": []any{reload}},
				map[string]any{"name": "http01-proxyd-install.service", "actions": install},
				map[string]any{"name": "http01-proxyd-install.timer", "actions": []any{reload}},
			},
		}}},
		"layered": {disruption.LayeredPolicy().Manifest, map[string]any{"nodeDisruptionPolicy": map[string]any{"files": []any{configuration, catalog, sos}}}},
		"removal": {disruption.RemovalManifest, map[string]any{}},
	} {
		text, err := tt.text()
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := yaml.Load(text, &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"apiVersion": "operator.openshift.io/v1", "kind": "MachineConfiguration",
			"metadata": map[string]any{"name": "cluster"}, "spec": tt.want,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestWaitCommand: the command in the policy's header returns when the operator has
// observed this generation, and not before. The test runs it unchanged, with a fake oc
// that prints one line after another.
func TestWaitCommand(t *testing.T) {
	t.Parallel()
	manifest, err := disruption.InstallerPolicy().Manifest()
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^#   (timeout .+)$`).FindSubmatch(manifest)
	if found == nil {
		t.Fatalf("no wait command in\n%s", manifest)
	}
	for name, tt := range map[string]struct{ answers, left string }{
		"seen":            {"3=3\nleft\n", "left\n"},
		"behind":          {"13=12\n13=13\nleft\n", "left\n"},
		"longer at left":  {"13=3\n13=13\nleft\n", "left\n"},
		"longer at right": {"3=31\n31=31\nleft\n", "left\n"},
		"no status yet":   {"1=\n=\n\n1=1\nleft\n", "left\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, text := range map[string]string{
				"answers": tt.answers,
				"oc":      "#!/bin/sh\ncd " + dir + " && head -n 1 answers && sed -i 1d answers\n",
				"sleep":   "#!/bin/sh\n",
			} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-c", string(found[1]))
			cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			left, err := os.ReadFile(filepath.Join(dir, "answers"))
			if diff := cmp.Diff(tt.left, string(left)); err != nil || diff != "" {
				t.Errorf("%v: unread answers (-want +got):\n%s", err, diff)
			}
		})
	}
}
