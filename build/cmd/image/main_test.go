// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/build/internal/program"
)

func TestWithTag(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ ref, version, want string }{
		"a tag stays":                 {"quay.io/a/b:c", "v1.2.3", "quay.io/a/b:c"},
		"the version":                 {"quay.io/a/b", "v1.2.3", "quay.io/a/b:v1.2.3"},
		"a port is no tag":            {"localhost:5000/a", "v1.2.3", "localhost:5000/a:v1.2.3"},
		"a version that is no tag":    {"quay.io/a", "v1.2.3+dirty", "quay.io/a:v1.2.3_dirty"},
		"a version that is not known": {"quay.io/a", "(devel)", "quay.io/a:_devel_"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := withTag(tt.ref, tt.version); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestImageNamesMissingBinaries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var out, err strings.Builder
	code := imageProgram().Execute(t.Context(), []string{"--binaries", dir, "--out", dir + "/image"}, &out, &err)
	want := "image: " + dir + " has no http01-proxyd-linux-* for amd64, arm64, ppc64le, s390x; run make binaries\n"
	if code != program.Failure || out.String() != "" || err.String() != want {
		t.Errorf("exit code %d, %q, %q; want 1 and %q", code, out.String(), err.String(), want)
	}
}
