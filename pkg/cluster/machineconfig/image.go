// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"fmt"
	"strings"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
)

const imageForm = "registry.example.com/name@sha256:<64 lower-case hexadecimal digits>"

// maxRegistry is the length of a DNS name (RFC 1035 section 2.3.4) with a port. The reference
// grammar limits the rest of the name, and not its registry.
const maxRegistry = 253 + len(":65535")

// checkImage requires a complete reference that always means the same bytes.
func checkImage(image string, allowTag bool) error {
	problem := func(message, remediation string) error {
		return problem(fmt.Sprintf("image %q", image), message, remediation)
	}
	parsed, err := reference.Parse(image)
	if err != nil {
		return problem(fmt.Sprintf("not an image reference (%v)", err), "give "+imageForm)
	}
	_, byTag := parsed.(reference.Tagged)
	named, _ := parsed.(reference.Named)
	digested, byDigest := parsed.(reference.Digested)
	switch {
	case named == nil || !isHost(reference.Domain(named)):
		return problem("the name has no valid registry, so podman would have to guess one",
			"begin with the registry, as in "+imageForm)
	case byDigest && !byTag && digested.Digest().Algorithm() == digest.SHA256, allowTag && byTag && !byDigest:
		return nil
	}
	return problem("not by a sha256 digest alone, but a tag can be moved to another image at any time", "give the digest "+
		`that "skopeo inspect --format '{{.Digest}}' docker://NAME:TAG" prints, as in `+imageForm+
		", or --allow-tag to follow a tag")
}

// isHost reports whether the first component is a host, by the rule of the reference grammar
// (a dot, a port, or localhost).
func isHost(domain string) bool {
	return (domain == "localhost" || strings.ContainsAny(domain, ".:")) && len(domain) <= maxRegistry
}
