// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"io/fs"
	"time"
)

// ParseSums reads checksums.
func ParseSums(in Input) (map[string]string, error) { return parseSums(in) }

// CheckImage validates a reference.
var CheckImage = checkImage

// ClusterConfig returns the configuration from a cluster's objects.
func ClusterConfig(sources fs.FS, c *ClusterObjects) ([]byte, error) {
	found, err := Site{Cluster: c}.resolve(sources, time.Now())
	return found.configuration.Text, err
}
