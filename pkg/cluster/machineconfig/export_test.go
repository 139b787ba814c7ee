// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"io/fs"
	"time"

	"github.com/coreos/ignition/v2/config/v3_4/types"
)

// Judge judges a MachineConfig's spec, as it would be after rendering.
func Judge(spec map[string]any) error {
	_, err := judge("x.bu", machineConfig{map[string]any{"spec": spec}})
	return err
}

// JudgeIgnition judges without what Ignition's own parser refuses before.
func JudgeIgnition(c types.Config) error {
	v := verdict{source: "x.bu"}
	v.all(c)
	return v.error()
}

// ParseSums reads checksums.
func ParseSums(in Input) (map[string]string, error) { return parseSums(in) }

// CheckImage judges a reference.
var CheckImage = checkImage

// MaxFile bounds one file on the host.
const MaxFile = maxFile

// ClusterConfig is the configuration that a cluster's objects give.
func ClusterConfig(sources fs.FS, c *Cluster) ([]byte, error) {
	found, err := Site{Cluster: c}.settle(sources, time.Now())
	return found.configuration.Text, err
}

// WithoutSurrogates writes JSON as YAML.
var WithoutSurrogates = withoutSurrogates
