// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"bytes"
	"errors"
	"path"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"
)

type releasePlatform struct {
	file     string // the binary's name in a release
	variable string // of the installer: uname -m in upper case
}

func releasePlatforms() []releasePlatform {
	const binary, variable = "http01-proxyd-linux-", "HTTP01_PROXYD_SHA256_"
	return []releasePlatform{
		{binary + "amd64", variable + "X86_64"},
		{binary + "arm64", variable + "AARCH64"},
		{binary + "ppc64le", variable + "PPC64LE"},
		{binary + "s390x", variable + "S390X"},
	}
}

// checksums are 64 lower-case hexadecimal digits, by the installer's variable.
type checksums map[string]string

// parseSums reads the output of sha256sum, and returns the checksums of release
// binaries.
func parseSums(in Input) (checksums, error) {
	sums, variables := make(checksums), make(map[string]string)
	for _, p := range releasePlatforms() {
		variables[p.file] = p.variable
	}
	var problems []error
	line := regexp.MustCompile(`^([0-9a-fA-F]{64}) [ *](.+)$`)
	for i, text := range bytes.Split(in.Text, []byte("\n")) {
		text := strings.TrimSuffix(string(text), "\r")
		// sha256sum --check ignores comments too (coreutils src/cksum.c).
		if strings.TrimSpace(text) == "" || strings.HasPrefix(text, "#") {
			continue
		}
		where := &yaml.Node{Line: i + 1, Column: 1}
		found := line.FindStringSubmatch(text)
		if found == nil {
			problems = append(problems, problemAt(in.Name, where, "not a line of sha256sum", "write 64 hexadecimal digits, two spaces and the file's name"))
			continue
		}
		variable, sum := variables[path.Base(found[2])], strings.ToLower(found[1])
		if variable == "" {
			continue
		}
		if other, twice := sums[variable]; twice && other != sum {
			problems = append(problems, problemAt(in.Name, where, path.Base(found[2])+" has two different checksums", "keep the checksum of the image's binary"))
		}
		sums[variable] = sum
	}
	if len(sums) == 0 && len(problems) == 0 {
		names := make([]string, 0, len(releasePlatforms()))
		for _, p := range releasePlatforms() {
			names = append(names, p.file)
		}
		problems = append(problems, problem(in.Name, "names no binary", "give a file with a line for at least one of "+strings.Join(names, ", ")))
	}
	return sums, errors.Join(problems...)
}
