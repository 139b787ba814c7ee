// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	ignition "github.com/coreos/ignition/v2/config/v3_4"
	"github.com/coreos/ignition/v2/config/v3_4/types"
	"go.yaml.in/yaml/v4"
)

// OperatorLimit is the maximal size of a rendered configuration, which contains all
// MachineConfigs of a pool, as JSON (MaxMachineConfigSize in the
// machine-config-operator's pkg/controller/common/constants.go; the request limit of
// etcd). TotalLimit is our share. The templates of OpenShift and the MachineConfigs of
// the administrator need the rest.
const (
	OperatorLimit = 1572864
	TotalLimit    = 512 << 10
)

const roleLabel = "machineconfiguration.openshift.io/role"

// Object is one rendered file.
type Object struct {
	File  string   // the file name, without a directory
	Text  []byte   // the content
	Size  int      // bytes as JSON, to which limits apply
	Paths []string // of the files on a host
	Units []string // on a host
	// Architecture is the GOARCH of the binary in the file, if there is one.
	Architecture string
	// Notes inform the administrator about the content, one line each.
	Notes []string
	// Warnings describe input that was left out or that harms the cluster, one line each.
	Warnings []string
}

type machineConfig struct {
	fields map[string]any
}

func parseMachineConfig(text []byte) (machineConfig, error) {
	var m machineConfig
	if err := yaml.Load(text, &m.fields); err != nil {
		return m, fmt.Errorf("cannot read Butane's output: %w", err)
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

// setPool moves the object to another pool: it replaces the role in the label and in
// the name, where it must stand between dashes.
func (m machineConfig) setPool(pool, source string) error {
	metadata := m.section("metadata")
	labels, _ := metadata["labels"].(map[string]any)
	role, _ := labels[roleLabel].(string)
	if role == pool {
		return nil
	}
	name := m.name()
	if role == "" || !strings.Contains(name, "-"+role+"-") {
		message := fmt.Sprintf("metadata.name %q does not contain the role %q of its label %s", name, role, roleLabel)
		return problem(source, message, "use a name like 98-master-http01-proxyd")
	}
	metadata["name"] = strings.Replace(name, "-"+role+"-", "-"+pool+"-", 1)
	labels[roleLabel] = pool
	return nil
}

// json returns the object in the form whose size the operator and etcd limit.
func (m machineConfig) json() ([]byte, error) {
	text, err := json.Marshal(m.fields)
	if err != nil {
		return nil, fmt.Errorf("cannot write %s as JSON: %w", m.name(), err)
	}
	return text, nil
}

func (m machineConfig) yaml() ([]byte, error) {
	text, err := yaml.Dump(m.fields, yaml.WithIndent(2), yaml.WithCompactSeqIndent(), yaml.WithLineWidth(-1))
	if err != nil {
		return nil, fmt.Errorf("cannot write %s as YAML: %w", m.name(), err)
	}
	return text, nil
}

// listContents returns the files and units of the object.
func (m machineConfig) listContents() (paths, units []string, err error) {
	text, err := json.Marshal(m.section("spec")["config"])
	if err != nil {
		return nil, nil, fmt.Errorf("cannot write the Ignition part of %s: %w", m.name(), err)
	}
	c, remarks, err := ignition.ParseCompatibleVersion(text)
	if err == nil && len(remarks.Entries) > 0 {
		err = errors.New(remarks.String())
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot use the Ignition part of %s: %w", m.name(), err)
	}
	paths, units = listContents(c)
	return paths, units, nil
}

func listContents(c types.Config) (paths, units []string) {
	for _, f := range c.Storage.Files {
		paths = append(paths, f.Path)
	}
	for _, u := range c.Systemd.Units {
		units = append(units, u.Name)
	}
	return paths, units
}
