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
	problem := func(remediation, format string, args ...any) error {
		return problem(fmt.Sprintf("image %q", image), fmt.Sprintf(format, args...), remediation)
	}
	parsed, err := reference.Parse(image)
	if err != nil {
		return problem("give "+imageForm, "not an image reference (%v)", err)
	}
	named, ok := parsed.(reference.Named)
	if !ok || !hasRegistry(named) || len(reference.Domain(named)) > maxRegistry {
		return problem("begin with the registry, as in "+imageForm,
			"the name has no valid registry, so podman would have to guess one")
	}
	_, byTag := parsed.(reference.Tagged)
	digested, byDigest := parsed.(reference.Digested)
	switch {
	case byDigest && !byTag && digested.Digest().Algorithm() == digest.SHA256, allowTag && byTag && !byDigest:
		return nil
	case byTag && !byDigest:
		return problem(`give the digest that "skopeo inspect --format '{{.Digest}}' docker://`+image+`" prints, as in `+
			imageForm+", or --allow-tag to follow the tag", "a tag can be moved to another image at any time")
	default:
		return problem("give "+imageForm, "not by a sha256 digest alone")
	}
}

// hasRegistry reports whether the first component is a host, by the rule of the
// reference grammar (a dot, a port, or localhost).
func hasRegistry(named reference.Named) bool {
	domain := reference.Domain(named)
	return domain == "localhost" || strings.ContainsAny(domain, ".:")
}
