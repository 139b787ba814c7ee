// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
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
	// Files are what a MachineConfig writes on a host: files, units and drop-ins.
	Files []HostFile
	// Architecture is the GOARCH of the binary in the file, if there is one.
	Architecture string
	// Notes inform the administrator about the content, one line each.
	Notes []string
}

// machineConfig is a MachineConfig with the fields that Butane writes for our sources.
type machineConfig struct {
	APIVersion string `json:"apiVersion" yaml:"apiVersion"`
	Kind       string `json:"kind" yaml:"kind"`
	Metadata   struct {
		Labels map[string]string `json:"labels" yaml:"labels"`
		Name   string            `json:"name" yaml:"name"`
	} `json:"metadata" yaml:"metadata"`
	Spec struct {
		Config ignitionConfig `json:"config" yaml:"config"`
	} `json:"spec" yaml:"spec"`
}

// parseMachineConfig reads Butane's output and moves the object to another pool. The role is a
// label, and part of the name.
func parseMachineConfig(text []byte, pool string) (m machineConfig, err error) {
	if err := yaml.Load(text, &m, yaml.WithKnownFields()); err != nil {
		return m, fmt.Errorf("cannot read Butane's output: %w", err)
	}
	m.Metadata.Name = strings.Replace(m.Metadata.Name, "-"+m.Metadata.Labels[roleLabel]+"-", "-"+pool+"-", 1)
	m.Metadata.Labels[roleLabel] = pool
	return m, nil
}

// plainSource is a data URL of plain text in the YAML of an object.
var plainSource = regexp.MustCompile(`(?m)^( +)source: "data:,.*"$`)

// encode returns the object as YAML, and its size as JSON, which the operator and etcd limit. A
// plain data URL continues on a new line after each line of its file.
func (m machineConfig) encode() (text []byte, size int, err error) {
	asJSON, err := json.Marshal(m)
	if err == nil {
		text, err = yaml.Dump(m, yaml.WithIndent(2), yaml.WithCompactSeqIndent(), yaml.WithLineWidth(-1))
	}
	if err != nil {
		return nil, 0, fmt.Errorf("cannot write %s: %w", m.Metadata.Name, err)
	}
	text = plainSource.ReplaceAllFunc(text, func(line []byte) []byte {
		indent := bytes.Repeat([]byte(" "), bytes.IndexByte(line, 's')+2)
		next := slices.Concat([]byte("\\\n"), indent)
		line = bytes.Replace(line, []byte("data:,"), slices.Concat([]byte("data:,"), next), 1)
		return bytes.ReplaceAll(line, []byte("%0A"), slices.Concat([]byte("%0A"), next))
	})
	return text, len(asJSON), nil
}
