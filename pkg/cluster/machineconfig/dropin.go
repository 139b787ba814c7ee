// SPDX-License-Identifier: Apache-2.0

package machineconfig

import "strings"

// imageDropinText is the part of the installer's unit that differs from one
// rendering to the next. No character of a reference or a checksum means
// anything to systemd.
func imageDropinText(image string, sums checksums) []byte {
	var b strings.Builder
	b.WriteString(`# SPDX-License-Identifier: Apache-2.0
# Which image holds the binary; from http01-machineconfig.
[Service]
Environment=HTTP01_PROXYD_IMAGE=` + image + "\n")
	for _, p := range releasePlatforms() {
		if sum, ok := sums[p.variable]; ok {
			b.WriteString("Environment=" + p.variable + "=" + sum + "\n")
		}
	}
	return []byte(b.String())
}
