// SPDX-License-Identifier: Apache-2.0

package mcd_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/test/support/mcd"
)

// TestMerge holds that the last object by name wins in any order of the arguments.
func TestMerge(t *testing.T) {
	m := newMachine()
	d := &mcd.Daemon{Machine: m, Policy: readPolicy(t, policy)}
	packed := map[string]any{"contents": map[string]any{"source": zipped(t, "packed"), "compression": "gzip"}, "mode": 0o755}
	r := d.Update(t.Context(), render(
		t,
		mc("99-late").file("/etc/app/a", "late").file("/etc/app/packed", "plain").
			unitWith("app.service", map[string]any{"dropins": []any{map[string]any{"name": "10.conf", "contents": "d"}}}),
		mc("98-early").file("/etc/app/a", "early").fileWith("/etc/app/packed", packed).unit("app.service", "one"),
		mc("01-packed").fileWith("/etc/app/still", map[string]any{
			"contents": map[string]any{"source": zipped(t, "unpacked"), "compression": "gzip"}, "mode": 0o755,
		}),
	))
	if r.Degraded != nil {
		t.Fatal(r)
	}
	want := map[string]string{
		"/etc/app/a": "late", "/etc/app/packed": "plain", "/etc/app/still": "unpacked",
		"/etc/systemd/system/app.service": "one", "/etc/systemd/system/app.service.d/10.conf": "d",
	}
	for name := range m.files {
		if strings.HasPrefix(name, "/etc/machine-config-daemon/noorig/etc/app/") {
			delete(m.files, name)
		}
	}
	if diff := cmp.Diff(want, m.files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if m.modes["/etc/app/still"] != 0o755 || m.modes["/etc/app/a"] != 0o644 {
		t.Errorf("modes: %v", m.modes)
	}
}

// TestMergeCustomPool holds that a custom pool's objects follow those of the worker pool,
// whatever their names.
func TestMergeCustomPool(t *testing.T) {
	worker, infra := mc("99-worker").file("/etc/app/a", "worker"), mc("01-infra").file("/etc/app/a", "infra")
	worker.role, infra.role = "worker", "infra"
	r := render(t, worker, infra)
	if r.Pool != "infra" || !strings.HasPrefix(r.Name, "rendered-infra-") {
		t.Errorf("pool %s, name %s", r.Pool, r.Name)
	}
	m := newMachine()
	d := &mcd.Daemon{Machine: m, Policy: readPolicy(t, policy)}
	if r := d.Update(t.Context(), r); r.Degraded != nil || m.files["/etc/app/a"] != "infra" {
		t.Errorf("%v: %q", r, m.files["/etc/app/a"])
	}
}

func zipped(t *testing.T, content string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	must(t, w.Close())
	return "data:;base64," + base64.StdEncoding.EncodeToString(b.Bytes())
}

func TestMergeRefuses(t *testing.T) {
	role := func(o *object, role string) *object { o.role = role; return o }
	tests := []struct {
		name    string
		objects []*object
		want    string
	}{
		{"no role", []*object{role(mc("98-app"), "")}, "MachineConfig 98-app belongs to no pool"},
		{"two pools", []*object{mc("98-app"), role(mc("98-b"), "infra")}, "is for pool infra, others are for master"},
		{"master and worker", []*object{mc("98-app"), role(mc("98-b"), "worker")}, "is for pool worker, others are for master"},
		{"one name twice", []*object{mc("98-app"), mc("98-app")}, "two MachineConfigs are called 98-app"},
		{"no name", []*object{mc("")}, "not a named MachineConfig"},
		{"setuid", []*object{mc("98-app").fileWith("/etc/app/a", map[string]any{"mode": 0o4755})}, "rejects mode 04755"},
		{"newer Ignition", []*object{mc("98-app").with("config", map[string]any{
			"ignition": map[string]any{"version": "3.5.0"},
		})}, "parse the Ignition config of 98-app"},
		{"a file twice", []*object{mc("98-app").file("/etc/a", "1").file("/etc/a", "2")}, "parse the Ignition config of 98-app"},
		{"over the MCO's limit", []*object{mc("98-app").file("/etc/a", strings.Repeat("x", 1536*1024))}, "the MCO allows 1572864"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var raw [][]byte
			for _, o := range tt.objects {
				raw = append(raw, o.yaml(t))
			}
			if _, err := mcd.Merge(raw...); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error: %v", err)
			}
		})
	}
}

// TestOneDocument holds that a second document in a file is an error. The YAML library
// would ignore it.
func TestOneDocument(t *testing.T) {
	one := "# a comment\n\n---\n" + string(mc("98-app").yaml(t)) + "\n"
	if _, err := mcd.Merge([]byte(one)); err != nil {
		t.Error(err)
	}
	two := one + "---\n" + string(mc("98-b").yaml(t))
	if _, err := mcd.Merge([]byte(two)); err == nil || err.Error() != "object 1: more than one YAML document" {
		t.Errorf("error: %v", err)
	}
	if _, err := mcd.ReadPolicy([]byte(two)); err == nil || !strings.Contains(err.Error(), "more than one YAML document") {
		t.Errorf("error: %v", err)
	}
}

// TestRenderedName holds that equal contents have equal names, and that an empty config has
// none.
func TestRenderedName(t *testing.T) {
	a, again, b := render(t, mc("98-app")), render(t, mc("98-app")), render(t, mc("98-app").file("/etc/a", ""))
	if a.Name != again.Name || a.Name == b.Name {
		t.Errorf("names: %s %s %s", a.Name, again.Name, b.Name)
	}
	if none := render(t); none.Name != "" {
		t.Errorf("name of nothing: %s", none.Name)
	}
}

func TestReadPolicy(t *testing.T) {
	p := readPolicy(t, `
kind: MachineConfiguration
spec:
  nodeDisruptionPolicy:
    files:
    - {path: /etc/containers/policy.json, actions: [{type: None}]}
    - {path: /etc/app, actions: [{type: Reload, reload: {serviceName: app.service}}]}
    units:
    - {name: app.service, actions: [{type: Drain}, {type: Reboot}]}
    sshkey: {actions: [{type: DaemonReload}]}
`)
	defaults := readPolicy(t, "")
	if len(p.Files) != len(defaults.Files)+1 || len(p.Units) != len(defaults.Units)+1 {
		t.Fatalf("policy: %+v", p)
	}
	want := mcd.Rule{Key: "/etc/app", Actions: []mcd.Action{{Type: mcd.Reload, Service: "app.service"}}}
	if diff := cmp.Diff(want, p.Files[len(p.Files)-1]); diff != "" {
		t.Errorf("last file rule (-want +got):\n%s", diff)
	}
	for i, r := range p.Files[:len(defaults.Files)] {
		want := defaults.Files[i]
		if r.Key == "/etc/containers/policy.json" {
			want.Actions = []mcd.Action{{Type: mcd.None}}
		}
		if diff := cmp.Diff(want, r); diff != "" {
			t.Errorf("default rule %d (-want +got):\n%s", i, diff)
		}
	}
	if diff := cmp.Diff([]mcd.Action{{Type: mcd.DaemonReload}}, p.SSHKey); diff != "" {
		t.Errorf("sshkey (-want +got):\n%s", diff)
	}
}

func TestReadPolicyRefuses(t *testing.T) {
	tests := []struct{ name, content, want string }{
		{"another kind", `kind: MachineConfig`, `kind "MachineConfig"`},
		{"invalid YAML", "kind: [", "read the node disruption policy"},
		{
			"an unknown action", `{kind: MachineConfiguration, spec: {nodeDisruptionPolicy: {files: [{path: /a, actions: [{type: Special}]}]}}}`,
			`policy for /a: unknown action "Special"`,
		},
		{
			"no service", `{kind: MachineConfiguration, spec: {nodeDisruptionPolicy: {units: [{name: a.service, actions: [{type: Restart}]}]}}}`,
			"policy for a.service: Restart has no service",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := mcd.ReadPolicy([]byte(tt.content)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error: %v", err)
			}
		})
	}
}
