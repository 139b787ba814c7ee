// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"encoding/json"
	"fmt"
	"strings"

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
	File string // the file name, without a directory
	Text []byte // the content
	Size int    // bytes as JSON, to which limits apply
	// Architecture is the GOARCH of the binary in the file, if there is one.
	Architecture string
	// Notes inform the administrator about the content, one line each.
	Notes []string
}

// machineConfig is a MachineConfig, as Butane prints it.
type machineConfig struct {
	APIVersion string `json:"apiVersion" yaml:"apiVersion"`
	Kind       string `json:"kind" yaml:"kind"`
	Metadata   struct {
		Labels map[string]string `json:"labels" yaml:"labels"`
		Name   string            `json:"name" yaml:"name"`
	} `json:"metadata" yaml:"metadata"`
	Spec map[string]any `json:"spec" yaml:"spec"`
}

// parseMachineConfig reads Butane's output and moves the object to another pool. The role is a
// label, and part of the name.
func parseMachineConfig(text []byte, pool string) (m machineConfig, err error) {
	if err := yaml.Load(text, &m); err != nil {
		return m, fmt.Errorf("cannot read Butane's output: %w", err)
	}
	m.Metadata.Name = strings.Replace(m.Metadata.Name, "-"+m.Metadata.Labels[roleLabel]+"-", "-"+pool+"-", 1)
	m.Metadata.Labels[roleLabel] = pool
	return m, nil
}

// encode returns the object as YAML, and its size as JSON, which the operator and etcd limit.
func (m machineConfig) encode() (text []byte, size int, err error) {
	asJSON, err := json.Marshal(m)
	if err == nil {
		text, err = yaml.Dump(m, yaml.WithIndent(2), yaml.WithCompactSeqIndent(), yaml.WithLineWidth(-1))
	}
	if err != nil {
		return nil, 0, fmt.Errorf("cannot write %s: %w", m.Metadata.Name, err)
	}
	return text, len(asJSON), nil
}
