// SPDX-License-Identifier: Apache-2.0

package machineconfig

// ParseSums reads checksums.
func ParseSums(in Input) (map[string]string, error) { return parseSums(in) }

// CheckImage validates a reference.
var CheckImage = checkImage
