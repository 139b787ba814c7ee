// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"path"
	"regexp"
	"strings"
)

// checksums are 64 lower-case hexadecimal digits, by the installer's variable.
type checksums map[string]string

// parseSums reads the output of sha256sum, and returns the checksums of release
// binaries. Other lines are ignored.
func parseSums(in Input) (checksums, error) {
	const binary, variable = "http01-proxyd-linux-", "HTTP01_PROXYD_SHA256_"
	variables := map[string]string{ // of the installer: uname -m in upper case
		binary + "amd64": variable + "X86_64", binary + "arm64": variable + "AARCH64",
		binary + "ppc64le": variable + "PPC64LE", binary + "s390x": variable + "S390X",
	}
	sums := make(checksums)
	line := regexp.MustCompile(`(?m)^([0-9a-fA-F]{64}) [ *](.+?)\r?$`)
	for _, found := range line.FindAllStringSubmatch(string(in.Text), -1) {
		name := variables[path.Base(found[2])]
		sum := strings.ToLower(found[1])
		switch {
		case name == "":
		case sums[name] != "" && sums[name] != sum:
			return nil, problem(in.Name, path.Base(found[2])+" has two different checksums",
				"keep the checksum of the image's binary")
		default:
			sums[name] = sum
		}
	}
	if len(sums) == 0 {
		return nil, problem(in.Name, "has no checksum of a binary",
			"give a file with lines of sha256sum for binaries such as "+binary+"amd64")
	}
	return sums, nil
}
