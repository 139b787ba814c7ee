// SPDX-License-Identifier: Apache-2.0

package mcd_test

import (
	"encoding/json"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/mcd"
)

// object builds a MachineConfig.
type object struct {
	name, role string
	spec       map[string]any
	files      []any
	units      []any
}

func mc(name string) *object {
	return &object{name: name, role: "master", spec: map[string]any{}}
}

func (o *object) file(path, content string) *object {
	return o.fileWith(path, map[string]any{"contents": map[string]any{"source": "data:," + content}})
}

func (o *object) fileWith(path string, rest map[string]any) *object {
	rest["path"] = path
	o.files = append(o.files, rest)
	return o
}

// unit adds an enabled unit.
func (o *object) unit(name, contents string) *object {
	return o.unitWith(name, map[string]any{"contents": contents, "enabled": true})
}

func (o *object) unitWith(name string, rest map[string]any) *object {
	rest["name"] = name
	o.units = append(o.units, rest)
	return o
}

func (o *object) with(key string, value any) *object {
	o.spec[key] = value
	return o
}

// yaml returns JSON, which is valid YAML.
func (o *object) yaml(t *testing.T) []byte {
	t.Helper()
	ignition := map[string]any{"ignition": map[string]any{"version": "3.4.0"}}
	if len(o.files) > 0 {
		ignition["storage"] = map[string]any{"files": o.files}
	}
	if len(o.units) > 0 {
		ignition["systemd"] = map[string]any{"units": o.units}
	}
	spec := map[string]any{"config": ignition}
	for k, v := range o.spec {
		spec[k] = v
	}
	metadata := map[string]any{"name": o.name}
	if o.role != "" {
		metadata["labels"] = map[string]any{"machineconfiguration.openshift.io/role": o.role}
	}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
		"metadata": metadata, "spec": spec,
	})
	must(t, err)
	return raw
}

func render(t *testing.T, objects ...*object) mcd.Rendered {
	t.Helper()
	var raw [][]byte
	for _, o := range objects {
		raw = append(raw, o.yaml(t))
	}
	r, err := mcd.Merge(raw...)
	must(t, err)
	return r
}

func readPolicy(t *testing.T, content string) mcd.Policy {
	t.Helper()
	p, err := mcd.ReadPolicy([]byte(content))
	must(t, err)
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
