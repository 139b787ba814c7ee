// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/build/binary"
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

func TestImageHelp(t *testing.T) {
	t.Parallel()
	var out, err strings.Builder
	if code := imageProgram().Execute(t.Context(), []string{"--help"}, &out, &err); code != program.OK || err.String() != "" {
		t.Errorf("exit code %d, %s", code, err.String())
	}
	for _, want := range []string{"Examples, in build/:\n  go run ./cmd/image\n", "--push REFERENCE", "--binaries DIR"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help lacks %q:\n%s", want, out.String())
		}
	}
}

func TestImageChecksReferenceFirst(t *testing.T) {
	t.Parallel()
	for ref, want := range map[string]string{
		"http01-proxyd":                `"http01-proxyd" does not begin with a registry`,
		"some/http01-proxyd:latest":    `"some/http01-proxyd:latest" does not begin with a registry`,
		"quay.io/some/HTTP01:latest":   `"quay.io/some/HTTP01:latest" is not a reference for a push`,
		"quay.io/some/http01@sha256:0": `"quay.io/some/http01@sha256:0" is not a reference for a push`,
	} {
		t.Run(ref, func(t *testing.T) {
			t.Parallel()
			var out, err strings.Builder
			code := imageProgram().Execute(t.Context(), []string{"--binaries", t.TempDir(), "--push", ref}, &out, &err)
			if code != program.Failure || out.String() != "" || !strings.Contains(err.String(), want) || !strings.Contains(err.String(), "name it as REGISTRY/NAME[:TAG]") {
				t.Errorf("exit code %d, %q, %q; want %q", code, out.String(), err.String(), want)
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		revision string
		want     string
	}{
		"a commit": {"0123", "image: http01-proxyd v1.2.3\n"},
		"changes beside it": {"0123-dirty", "image: http01-proxyd v1.2.3\n" +
			"image: warning: git status shows changes or new files, so this image cannot be built again, and its digest is not that of the commit; " +
			"commit or remove them, then build the image again\n"},
		"no commit": {"", "image: http01-proxyd v1.2.3\n" +
			"image: warning: the binaries record no commit, so this image cannot be built again; build them in a clone of the repository, with git\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var notes strings.Builder
			describe(&notes, "v1.2.3", binary.Commit{Revision: tt.revision})
			if diff := cmp.Diff(tt.want, notes.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
