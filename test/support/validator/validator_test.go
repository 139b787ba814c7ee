// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// loadOnce shares one Validator among all tests, because compiling the rules takes time.
var loadOnce = sync.OnceValues(func() (*Validator, error) { return Load(context.Background()) })

func testValidator(t *testing.T) *Validator {
	t.Helper()
	j, err := loadOnce()
	must(t, err)
	return j
}

// checkError compares the error with a part of the expected one. An empty want means no
// error.
func checkError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("error: %v", err)
	case want != "" && err == nil:
		t.Errorf("no error, want: %s", want)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("error: %v\nwant: %s", err, want)
	}
}

func TestIgnition(t *testing.T) {
	unit := func(rest string) string {
		return `{"ignition":{"version":"3.4.0"},"systemd":{"units":[` + rest + `]}}`
	}
	file := func(rest string) string {
		return `{"ignition":{"version":"3.4.0"},"storage":{"files":[` + rest + `]}}`
	}
	tests := []struct{ name, config, want string }{
		{"empty", `{"ignition":{"version":"3.4.0"}}`, ""},
		{"a unit", unit(`{"name":"a.service","enabled":true,"contents":"[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=a.target\n"}`), ""},
		{"nothing at all", ``, "not a config (empty)"},
		{"another version", `{"ignition":{"version":"3.5.0"}}`, "unsupported config version"},
		{"a mode beyond the bits", file(`{"path":"/etc/a","mode":99999}`), "illegal file mode"},
		{"a decimal mode in place of an octal one", file(`{"path":"/etc/a","mode":755,"contents":{"source":"data:,x"}}`), "setuid/setgid/sticky bits are not supported"},
		{"enabled without [Install], a warning", unit(`{"name":"a.service","enabled":true,"contents":"[Service]\nExecStart=/bin/true\n"}`), "has no install section"},
		{"an unknown key, a warning", `{"ignition":{"version":"3.4.0"},"storage":{"file":[]}}`, "unused key file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { checkError(t, Ignition([]byte(tt.config)), tt.want) })
	}
}

// policyHead begins a policy in the tests below.
const policyHead = "apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\nmetadata: {name: cluster}\n" +
	"spec:\n  nodeDisruptionPolicy:\n"

func TestObject(t *testing.T) {
	file := func(actions string) string {
		return policyHead + "    files:\n    - path: /etc/a\n      actions: " + actions + "\n"
	}
	many := func(list, key string, n int) string {
		var b strings.Builder
		fmt.Fprintf(&b, "%s    %s:\n", policyHead, list)
		for i := range n {
			fmt.Fprintf(&b, "    - {%s: /etc/%d.service, actions: [{type: None}]}\n", key, i)
		}
		return strings.ReplaceAll(b.String(), "name: /etc/", "name: u")
	}
	osConfig := func(name, containerfile string) string {
		return "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineOSConfig\nmetadata: {name: " + name + "}\n" +
			"spec:\n  machineConfigPool: {name: master}\n  imageBuilder: {imageBuilderType: Job}\n" +
			"  renderedImagePushSecret: {name: push}\n  renderedImagePushSpec: quay.io/org/os:latest\n" +
			"  containerFile: [{content: " + containerfile + "}]\n"
	}
	tests := []struct{ name, object, want string }{
		{"None", file("[{type: None}]"), ""},
		{"two in a row", file("[{type: DaemonReload}, {type: Restart, restart: {serviceName: a.service}}]"), ""},
		{"None beside another", file("[{type: None}, {type: DaemonReload}]"), "None action can only be specified standalone"},
		{"Restart without a name", file("[{type: Restart, restart: {}}]"), "restart.serviceName: Required value"},
		{"an unknown action", file("[{type: Special}]"), `Unsupported value: "Special"`},
		{"no actions", policyHead + "    files: [{path: /etc/a}]\n", "files[0].actions: Required value"},
		{"eleven actions", file("[" + strings.Repeat("{type: DaemonReload}, ", 11) + "]"), "Too many: 11: must have at most 10 items"},
		{"50 files", many("files", "path", 50), ""},
		{"51 files", many("files", "path", 51), "Too many: 51: must have at most 50 items"},
		{"50 units", many("units", "name", 50), ""},
		{"51 units", many("units", "name", 51), "Too many: 51: must have at most 50 items"},
		{"an unknown field", policyHead + "    file: []\n", `unknown field "spec.nodeDisruptionPolicy.file"`},
		{"an unknown field of metadata", strings.Replace(file("[{type: None}]"), "{name: cluster}", "{name: cluster, label: {}}", 1), `unknown field "metadata.label"`},
		{"a key twice", file("[{type: None, type: None}]"), `key "type" already set in map`},
		{"a value of the wrong type", file("None"), "must be of type array"},
		{"no name", strings.Replace(file("[{type: None}]"), "{name: cluster}", "{}", 1), "metadata.name: Required value"},
		{"a bad name", strings.Replace(file("[{type: None}]"), "{name: cluster}", "{name: Cluster_1}", 1), "RFC 1123"},
		{"another kind", strings.Replace(file("[{type: None}]"), "MachineConfiguration", "MachineConfigurations", 1), "no schema for operator.openshift.io/v1, Kind=MachineConfigurations"},
		{"another version", strings.Replace(file("[{type: None}]"), "/v1", "/v2", 1), "no schema for operator.openshift.io/v2"},
		{"an OS config", osConfig("master", "FROM configs AS final"), ""},
		{"a Containerfile of 4096", osConfig("master", strings.Repeat("a", 4096)), ""},
		{"a Containerfile of 4097", osConfig("master", strings.Repeat("a", 4097)), "may not be more than 4096"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { checkError(t, testValidator(t).Object([]byte(tt.object)), tt.want) })
	}
}

func TestMachineConfig(t *testing.T) {
	object := func(spec string) []byte {
		return []byte("apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata: {name: 98-a}\nspec: " + spec + "\n")
	}
	tests := []struct{ name, spec, want string }{
		{"good", `{config: {ignition: {version: 3.4.0}}}`, ""},
		{"a warning of Ignition", `{config: {ignition: {version: 3.4.0}, storage: {file: []}}}`, "unused key file"},
		{"an error of Ignition", `{config: {ignition: {version: 3.4.0}, storage: {files: [{path: a}]}}}`, "path not absolute"},
		{"a field that the schema lacks", `{config: {ignition: {version: 3.4.0}}, kernelArgs: []}`, `unknown field "spec.kernelArgs"`},
		{"a config of the wrong type", `{config: text}`, "must be of type object"},
		{"no config", `{}`, "not a MachineConfig with spec.config"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { checkError(t, testValidator(t).MachineConfig(object(tt.spec)), tt.want) })
	}
}

// TestUpdate compares an update with the stored object.
func TestUpdate(t *testing.T) {
	osConfig := func(name, pool, secret string) []byte {
		return []byte("apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineOSConfig\nmetadata: {name: " + name + "}\n" +
			"spec:\n  machineConfigPool: {name: " + pool + "}\n  imageBuilder: {imageBuilderType: Job}\n" +
			"  renderedImagePushSecret: {name: " + secret + "}\n  renderedImagePushSpec: quay.io/org/os:latest\n")
	}
	tests := []struct {
		name        string
		before, now []byte
		want        string
	}{
		{"good", osConfig("a", "a", "one"), osConfig("a", "a", "two"), ""},
		{"bad before and now", osConfig("a", "b", "one"), osConfig("a", "b", "two"), ""},
		{"bad in another way", osConfig("a", "b", "one"), osConfig("a", "c", "one"), "name must match the referenced MachineConfigPool name"},
		{"good before, bad now", osConfig("a", "a", "one"), osConfig("a", "a", "One"), "lowercase RFC 1123 subdomain"},
		{"another name", osConfig("a", "a", "one"), osConfig("b", "b", "one"), "metadata.name: Invalid value"},
		{"another kind", osConfig("a", "a", "one"), []byte(policyHead + "    files: []\n"), "a MachineOSConfig cannot become a MachineConfiguration"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { checkError(t, testValidator(t).Update(tt.before, tt.now), tt.want) })
	}
}

func TestDocuments(t *testing.T) {
	documents, err := Documents([]byte("# head\n---\na: 1\n---\n# nothing\n---\nb: 2\n"))
	if err != nil || len(documents) != 2 || !strings.Contains(string(documents[1]), "b: 2") {
		t.Errorf("documents: %q, %v", documents, err)
	}
	if _, err := Documents([]byte("a: [\n")); err == nil {
		t.Error("no error for broken YAML")
	}
}

// TestOpenElsewhere holds that the schemas come from this module's go.mod.
func TestOpenElsewhere(t *testing.T) {
	t.Chdir(t.TempDir())
	_, err := Load(t.Context())
	checkError(t, err, "find the CRDs of github.com/")
}

func TestConcurrent(t *testing.T) {
	j := testValidator(t)
	good := []byte(policyHead + "    files: [{path: /etc/a, actions: [{type: None}]}]\n")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := j.Object(good); err != nil {
				t.Error(err)
			}
			if err := j.Update(good, good); err != nil {
				t.Error(err)
			}
			if _, err := j.Apply(good, good, "admin", false); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
