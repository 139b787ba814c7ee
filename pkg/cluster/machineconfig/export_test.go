// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"io/fs"
	"time"

	"github.com/coreos/ignition/v2/config/v3_4/types"
)

// ValidateSpec judges a MachineConfig's spec, as it would be after rendering.
func ValidateSpec(spec map[string]any) error {
	_, err := validateMachineConfig("x.bu", machineConfig{map[string]any{"spec": spec}})
	return err
}

// ValidateIgnition judges without what Ignition's own parser refuses before.
func ValidateIgnition(c types.Config) error {
	v := validator{source: "x.bu"}
	v.checkConfig(c)
	return v.joinedProblems()
}

// ParseSums reads checksums.
func ParseSums(in Input) (map[string]string, error) { return parseSums(in) }

// CheckImage judges a reference.
var CheckImage = checkImage

// MaxFile bounds one file on the host.
const MaxFile = maxFile

// ClusterConfig is the configuration that a cluster's objects give.
func ClusterConfig(sources fs.FS, c *ClusterObjects) ([]byte, error) {
	found, err := Site{Cluster: c}.resolve(sources, time.Now())
	return found.configuration.Text, err
}

// ReplaceSurrogates writes JSON as YAML.
var ReplaceSurrogates = replaceSurrogates
