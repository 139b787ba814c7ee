// SPDX-License-Identifier: Apache-2.0

package machineconfig

import "strings"

// imageDropinText returns the drop-in of the installer's unit, the only part of the
// unit that differs between renderings. References and checksums contain no character
// that is special to systemd.
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
