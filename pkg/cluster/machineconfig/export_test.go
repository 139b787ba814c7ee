// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"io/fs"
	"time"

	"github.com/coreos/ignition/v2/config/v3_4/types"
)

// ValidateSpec validates a MachineConfig's spec, as after rendering.
func ValidateSpec(spec map[string]any) error {
	_, err := validateMachineConfig("x.bu", machineConfig{map[string]any{"spec": spec}})
	return err
}

// ValidateIgnition validates without the checks of Ignition's own parser.
func ValidateIgnition(c types.Config) error {
	v := validator{source: "x.bu"}
	v.checkConfig(c)
	return v.joinedProblems()
}

// ParseSums reads checksums.
func ParseSums(in Input) (map[string]string, error) { return parseSums(in) }

// CheckImage validates a reference.
var CheckImage = checkImage

// MaxFile limits one file on the host.
const MaxFile = maxFile

// ClusterConfig returns the configuration from a cluster's objects.
func ClusterConfig(sources fs.FS, c *ClusterObjects) ([]byte, error) {
	found, err := Site{Cluster: c}.resolve(sources, time.Now())
	return found.configuration.Text, err
}
