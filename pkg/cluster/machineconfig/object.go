// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_4/types"
	"go.yaml.in/yaml/v4"
)

// The machine-config-operator refuses a rendered configuration, which is all
// of a pool's MachineConfigs merged, whose JSON is longer than OperatorLimit
// (MaxMachineConfigSize in its pkg/controller/common/constants.go; etcd's
// request limit). TotalLimit is our share of it: OpenShift's own templates and
// the admin's MachineConfigs need room too.
const (
	OperatorLimit = 1572864
	TotalLimit    = 512 << 10
)

const roleLabel = "machineconfiguration.openshift.io/role"

// Object is one rendered file.
type Object struct {
	File  string   // a name for it, without a directory
	Text  []byte   // the whole file
	Size  int      // bytes of its JSON, which is what limits count
	Paths []string // of the files that it puts on a host
	Units []string // that it puts on a host
	// Architecture is GOARCH of the binary that it holds, if it holds one.
	Architecture string
	// Notes are what an admin has to know of what went into it, a line each.
	Notes []string
	// Warnings are what was left out of what an admin has given, a line each.
	Warnings []string
}

// machineConfig is a MachineConfig as Butane has written it.
type machineConfig struct {
	fields map[string]any
}

func parseMachineConfig(text []byte) (machineConfig, error) {
	var m machineConfig
	if err := yaml.Load(text, &m.fields); err != nil {
		return m, fmt.Errorf("read Butane's output: %w", err)
	}
	return m, nil
}

func (m machineConfig) section(name string) map[string]any {
	fields, _ := m.fields[name].(map[string]any)
	return fields
}

func (m machineConfig) name() string {
	name, _ := m.section("metadata")["name"].(string)
	return name
}

// setPool gives the object to another pool: the role in its label, and in its
// name, where it has to stand between dashes.
func (m machineConfig) setPool(pool, source string) error {
	metadata := m.section("metadata")
	labels, _ := metadata["labels"].(map[string]any)
	role, _ := labels[roleLabel].(string)
	if role == pool {
		return nil
	}
	name := m.name()
	if role == "" || !strings.Contains(name, "-"+role+"-") {
		return Problem{
			source, fmt.Sprintf("metadata.name %q does not hold the role %q of its label %s", name, role, roleLabel),
			"let it, as in 98-master-http01-proxyd",
		}
	}
	metadata["name"] = strings.Replace(name, "-"+role+"-", "-"+pool+"-", 1)
	labels[roleLabel] = pool
	return nil
}

// json is the object as the operator and etcd count it.
func (m machineConfig) json() ([]byte, error) {
	text, err := json.Marshal(m.fields)
	if err != nil {
		return nil, fmt.Errorf("write %s as JSON: %w", m.name(), err)
	}
	return text, nil
}

func (m machineConfig) yaml() ([]byte, error) {
	text, err := yaml.Dump(m.fields, yaml.WithIndent(2), yaml.WithCompactSeqIndent(), yaml.WithLineWidth(-1))
	if err != nil {
		return nil, fmt.Errorf("write %s as YAML: %w", m.name(), err)
	}
	return text, nil
}

// listContents names what a configuration puts on a host.
func listContents(c types.Config) (paths, units []string) {
	for _, f := range c.Storage.Files {
		paths = append(paths, f.Path)
	}
	for _, u := range c.Systemd.Units {
		units = append(units, u.Name)
	}
	return paths, units
}
