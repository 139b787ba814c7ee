// SPDX-License-Identifier: Apache-2.0

package machineconfig_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
)

const sum = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestImage(t *testing.T) {
	t.Parallel()
	const form = "registry.example.com/name@sha256:<64 lower-case hexadecimal digits>"
	const byTag = `not by a sha256 digest alone, but a tag can be moved to another image at any time: give the digest that "skopeo inspect --format '{{.Digest}}' docker://NAME:TAG" prints, as in ` + form + ", or --allow-tag to follow a tag"
	for name, tt := range map[string]struct {
		image    string
		allowTag bool
		want     string // the message after the image; "" for an accepted reference
	}{
		"digest":         {"quay.io/a/b@sha256:" + sum, false, ""},
		"example":        {machineconfig.ExampleImage, false, ""},
		"localhost":      {"localhost/b@sha256:" + sum, false, ""},
		"IPv6 address":   {"[2001:db8::1]:5000/b@sha256:" + sum, false, ""},
		"tag allowed":    {"quay.io/a/b:v1", true, ""},
		"tag":            {"quay.io/a/b:v1", false, byTag},
		"tag and digest": {"quay.io/a/b:v1@sha256:" + sum, true, byTag},
		"neither":        {"quay.io/a/b", false, byTag},
		"none": {"", false, "not an image reference (repository name must have at least one component): give " +
			form},
		"no registry": {
			"b@sha256:" + sum, false,
			"the name has no valid registry, so podman would have to guess one: begin with the registry, as in " + form,
		},
		"digest alone": {
			"sha256:" + sum, true,
			"the name has no valid registry, so podman would have to guess one: begin with the registry, as in " + form,
		},
		"sha512": {"quay.io/a/b@sha512:" + sum + sum, false, byTag},
		"upper-case digest": {
			"quay.io/a/b@sha256:" + strings.ToUpper(sum), false,
			"not an image reference (invalid checksum digest format): give " + form,
		},
		"transport": {
			"docker://quay.io/a/b@sha256:" + sum, false,
			"not an image reference (invalid reference format): give " + form,
		},
		"second line": {
			"quay.io/a/b:v1\nExecStart=/bin/sh", true,
			"not an image reference (invalid reference format): give " + form,
		},
		"systemd specifier": {"quay.io/a/%H:v1", true, "not an image reference (invalid reference format): give " + form},
		"longest registry":  {strings.Repeat("a.", 126) + "a:65535/b@sha256:" + sum, false, ""},
		"overlong registry": {
			strings.Repeat("a.", 127) + "a:65535/b@sha256:" + sum, false,
			"the name has no valid registry, so podman would have to guess one: begin with the registry, as in " + form,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if err := machineconfig.CheckImage(tt.image, tt.allowTag); err != nil {
				_, got, _ = strings.Cut(err.Error(), `": `)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
