// SPDX-License-Identifier: Apache-2.0

package build_test

import (
	"crypto/elliptic"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/http01-proxyd/http01-proxyd/build/image"
)

const (
	version    = "v0.98.7"
	repository = "registry.example/some/http01-proxyd"
	// maxHostBinary is what the binary may cost on a host's disk. Half of it is
	// HTTP, TLS and protobuf, which the children speak that check and serve metrics.
	maxHostBinary = 16 << 20
)

// release makes a release the way the Makefile's reader would, with the one
// platform of oc-http01 that is needed to render.
func release(t *testing.T, dir string, env []string, args ...string) (string, error) {
	t.Helper()
	args = append([]string{
		"-f", "build/release.mk", "release", "IMAGE_REPOSITORY=" + repository,
		"ADMIN_PLATFORMS=" + adminPlatform(),
	}, args...)
	return run(t, dir, env, "make", args...)
}

// adminPlatform is the one platform of oc-http01 in these releases.
func adminPlatform() string { return runtime.GOOS + "-" + runtime.GOARCH }

// TestReleaseIsReproducible makes one release in two clones, under what differs
// between two people's machines, and compares all of both.
func TestReleaseIsReproducible(t *testing.T) {
	// One after another, the tests that make binaries of four architectures compile each
	// package once: a compilation that has not ended is not in the cache.
	source := snapshot(t)
	succeed(t, source, "git", "tag", version)
	one, other := clone(t, source, "one"), clone(t, source, "some/where/else")
	if out, err := release(t, one, []string{"TZ=UTC", "LC_ALL=C"}, "VERSION="+version); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// DIST is of where make was called, and -j is for all of it.
	out, err := release(t, other, []string{
		"TZ=Asia/Tokyo", "LC_ALL=C.UTF-8", "GOFLAGS=-buildvcs=false -ldflags=-X=a.b=c",
		"GOPPC64=power10",
	},
		"-j4", "VERSION="+version, "DIST=../out")
	if err != nil || strings.Contains(out, "jobserver") {
		t.Fatalf("%v\n%s", err, out)
	}

	got, again := files(t, filepath.Join(one, "dist")), files(t, filepath.Join(other, "..", "out"))
	if diff := cmp.Diff(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(again))); diff != "" {
		t.Errorf("files of the two, -one +other:\n%s", diff)
	}
	for name, data := range got {
		if again[name] != data {
			t.Errorf("%s differs between the two", name)
		}
	}
	t.Run("contents", func(t *testing.T) { checkContents(t, filepath.Join(one, "dist"), got) })
	t.Run("image", func(t *testing.T) { checkLayout(t, filepath.Join(one, "dist"), got) })
	t.Run("clean", func(t *testing.T) {
		if changes := succeed(t, one, "git", "status", "--porcelain"); changes != "" {
			t.Errorf("making the release has changed the tree:\n%s", changes)
		}
	})
	t.Run("plugin", func(t *testing.T) { checkPlugin(t, filepath.Join(one, "dist")) })
	t.Run("verify", func(t *testing.T) { checkVerification(t, one, filepath.Join(one, "dist")) })
	t.Run("push", func(t *testing.T) { checkPush(t, other, next(t, out), got["image.digest"]) })
	t.Run("another commit", func(t *testing.T) { checkReleaseStays(t, other, next(t, out), got["image.digest"]) })
	t.Run("a tag that is no version of the module", func(t *testing.T) {
		succeed(t, one, "git", "tag", "v9.0.0")
		if out, err := release(t, one, nil, "VERSION=v9.0.0"); err == nil ||
			!strings.Contains(out, "the version of the binaries is "+version+", not v9.0.0") {
			t.Errorf("got %v and\n%s", err, out)
		}
	})
}

// checkContents looks at what admins download.
func checkContents(t *testing.T, dist string, all map[string]string) {
	t.Helper()
	host := []string{
		"http01-proxyd-linux-amd64", "http01-proxyd-linux-arm64", "http01-proxyd-linux-ppc64le",
		"http01-proxyd-linux-s390x",
	}
	admin := "oc-http01-" + adminPlatform()
	wantSums := append(slices.Clone(host), admin, "machineconfigs-"+version+".tar.gz", "sbom.cdx.json", "http01.yaml",
		"http01-"+adminPlatform()+".tar.gz")
	var sums []string
	for _, line := range strings.Split(strings.TrimSpace(all["SHA256SUMS"]), "\n") {
		sums = append(sums, strings.Fields(line)[1])
	}
	if diff := cmp.Diff(wantSums, sums); diff != "" {
		t.Errorf("files of SHA256SUMS, -want +got:\n%s", diff)
	}
	succeed(t, dist, "sha256sum", "--check", "--strict", "SHA256SUMS")

	for _, name := range host {
		t.Logf("%s: %d bytes", name, len(all[name]))
		if size := len(all[name]); size == 0 || size > maxHostBinary {
			t.Errorf("%s has %d bytes, want at most %d", name, size, maxHostBinary)
		}
	}
	if runtime.GOOS == "linux" {
		out := succeed(t, dist, "./http01-proxyd-linux-"+runtime.GOARCH, "version")
		if !strings.HasPrefix(out, "http01-proxyd "+version+" ") {
			t.Errorf("the binary's version is %q, want %s", out, version)
		}
	}

	ref := repository + "@" + strings.TrimSpace(all["image.digest"])
	unit := all["machineconfigs/98-master-http01-proxyd.yaml"]
	if !strings.Contains(unit, ref) {
		t.Errorf("the MachineConfig does not name %s:\n%s", ref, unit)
	}
	if !strings.Contains(all["machineconfigs/monitoring/prometheusrule.yaml"], "kind: PrometheusRule") {
		t.Error("the rules for Prometheus are not among the MachineConfigs")
	}
	if !strings.Contains(all["machineconfigs/crd/apiservers.config.openshift.io.patch.yaml"], "http01ChallengeProxy") {
		t.Error("the API's patch is not among the MachineConfigs")
	}
	unpacked := filepath.Join(t.TempDir(), "unpacked")
	must(t, os.Mkdir(unpacked, 0o700))
	succeed(t, dist, "tar", "--extract", "--file", "machineconfigs-"+version+".tar.gz", "--directory", unpacked)
	rendered := make(map[string]string)
	for name, data := range all {
		if rest, ok := strings.CutPrefix(name, "machineconfigs/"); ok {
			rendered[filepath.Join("http01-proxyd-"+version, rest)] = data
		}
	}
	if diff := cmp.Diff(rendered, files(t, unpacked)); diff != "" || len(rendered) < 3 {
		t.Errorf("files of the tarball, -rendered +packed:\n%s", diff)
	}

	bill := all["sbom.cdx.json"]
	for _, want := range append(slices.Clone(host), admin, "golang.org/x/crypto/x509roots/fallback@v0.0.0-20",
		"pkg:oci/http01-proxyd@", "2026-03-04T05:06:07Z", version) {
		if !strings.Contains(bill, want) {
			t.Errorf("the bill of materials lacks %q", want)
		}
	}
}

// checkLayout reads the image back from its layout.
func checkLayout(t *testing.T, dist string, all map[string]string) {
	t.Helper()
	root := must1(layout.ImageIndexFromPath(filepath.Join(dist, "image")))(t)
	outer := must1(root.IndexManifest())(t)
	if len(outer.Manifests) != 1 || outer.Manifests[0].Digest.String()+"\n" != all["image.digest"] {
		t.Fatalf("the layout has %v, want the one image of image.digest, %s", outer.Manifests, all["image.digest"])
	}
	index := must1(root.ImageIndex(outer.Manifests[0].Digest))(t)
	manifest := must1(index.IndexManifest())(t)
	if got := manifest.Annotations["org.opencontainers.image.version"]; got != version {
		t.Errorf("the image's version is %s, want %s", got, version)
	}
	var archs []string
	for _, m := range manifest.Manifests {
		archs = append(archs, m.Platform.Architecture)
	}
	if diff := cmp.Diff(image.Architectures(), archs); diff != "" {
		t.Errorf("platforms, -want +got:\n%s", diff)
	}
	// The image has the binaries of SHA256SUMS: building it from them gives the same
	// digest.
	binaries := make(map[string]string)
	for _, arch := range archs {
		binaries[arch] = filepath.Join(dist, "http01-proxyd-linux-"+arch)
	}
	again, err := image.Build(image.Options{
		Binaries: binaries,
		Share:    filepath.Join(dist, "..", "bin", "share"),
		Created:  commitTime(),
		Version:  version,
		Revision: manifest.Annotations["org.opencontainers.image.revision"],
	})
	must(t, err)
	if digest, err := again.Digest(); err != nil || digest.String()+"\n" != all["image.digest"] {
		t.Errorf("an image of the same binaries is %s (%v), want %s", digest, err, all["image.digest"])
	}
}

// next returns the commands that a release prints, without the reference.
func next(t *testing.T, out string) []string {
	t.Helper()
	_, command, found := strings.Cut(out, "\nNext:\n")
	words := strings.Fields(command)
	if !found || len(words) < 2 || words[len(words)-1] != "PUSH="+repository+":"+version {
		t.Fatalf("the release does not print how to push it as %s:%s:\n%s", repository, version, out)
	}
	return words[:len(words)-1]
}

// checkPush runs the printed commands: the registry then has the image that the
// MachineConfigs name.
func checkPush(t *testing.T, dir string, command []string, digest string) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	ref := strings.TrimPrefix(server.URL, "http://") + "/some/http01-proxyd"
	var stdout, stderr strings.Builder
	err := runInto(t, &stdout, &stderr, dir, nil, command[0], append(command[1:], "PUSH="+ref)...)
	if err != nil || stdout.String() != ref+"@"+digest {
		t.Errorf("%v, and the standard output is %q, want %q\n%s", err, stdout.String(), ref+"@"+digest, stderr.String())
	}
	tag := must1(name.NewTag(ref + ":" + version))(t)
	got, err := remote.Head(tag, remote.WithContext(t.Context()))
	if err != nil || got.Digest.String()+"\n" != digest {
		t.Errorf("%s is %v (%v), want %s", tag, got, err, digest)
	}
}

// checkReleaseStays: from another commit there is another image, and it neither
// takes the place of the released one nor is pushed.
func checkReleaseStays(t *testing.T, dir string, command []string, digest string) {
	t.Helper()
	succeed(t, dir, "git", "commit", "--quiet", "--no-gpg-sign", "--allow-empty", "--message", "next")
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("request to the registry: %s %s", r.Method, r.URL)
	}))
	t.Cleanup(server.Close)
	for name, push := range map[string][]string{
		"pushed": {"PUSH=" + strings.TrimPrefix(server.URL, "http://") + "/some/http01-proxyd"},
		"made":   nil,
	} {
		out, err := run(t, dir, nil, command[0], append(slices.Clone(command[1:]), push...)...)
		want := "contains a release whose MachineConfigs name " + strings.TrimSpace(digest) +
			"; to push its image, check out its commit"
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: got %v, want %q in\n%s", name, err, want, out)
		}
	}
	dist := filepath.Join(dir, "..", "out")
	if data, err := os.ReadFile(filepath.Join(dist, "image.digest")); err != nil || string(data) != digest {
		t.Errorf("image.digest is %s (%v), want %s", data, err, digest)
	}
}

// TestRehearsal: a rehearsal is reported as a rehearsal.
func TestRehearsal(t *testing.T) {
	// Not parallel: see TestReleaseIsReproducible.
	dir := clone(t, snapshot(t), "clone")
	_, private, public := writeKeys(t, elliptic.P256())
	out, err := release(t, dir, nil, "VERSION="+version, "ALLOW_DIRTY=1", "KEY="+private)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	succeed(t, dir, "make", "-f", "build/release.mk", "verify", "PUBLIC_KEY="+public)
	for _, name := range []string{"provenance.intoto.jsonl", "sbom.intoto.jsonl"} {
		if _, err := os.Stat(filepath.Join(dir, "dist", name)); err != nil {
			t.Error(err)
		}
	}
	for _, want := range []string{
		"This was a rehearsal.", "version of the binaries is v0.0.0-20260304050607-",
		"git tag -s " + version, "make -f build/release.mk release VERSION=" + version,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("missing %q in:\n%s", want, out)
		}
	}
	for _, wrong := range []string{"PUSH=", "Next:"} {
		if strings.Contains(out, wrong) {
			t.Errorf("unexpected %q in:\n%s", wrong, out)
		}
	}
}

// TestReleaseRefuses what nobody could make again.
func TestReleaseRefuses(t *testing.T) {
	t.Parallel()
	source := snapshot(t)
	succeed(t, source, "git", "tag", version)
	nothing := func(*testing.T, string) {}
	surprise := func(t *testing.T, dir string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(dir, "surprise.go"), []byte("package main\n"), 0o600))
	}
	for name, tt := range map[string]struct {
		prepare func(t *testing.T, dir string)
		args    []string
		want    []string
	}{
		"changes": {
			surprise,
			[]string{"VERSION=" + version},
			[]string{"surprise.go", "Commit them, or rehearse with ALLOW_DIRTY=1"},
		},
		"no version":     {nothing, nil, []string{"VERSION=v1.2.3 is missing"}},
		"half a version": {nothing, []string{"VERSION=v0.98"}, []string{"VERSION=v0.98 is not a version", "v1.2.3-rc.1"}},
		"no v":           {nothing, []string{"VERSION=0.98.7", "ALLOW_DIRTY=1"}, []string{"VERSION=0.98.7 is not a version"}},
		"no image's tag": {nothing, []string{"VERSION=v0.98.7+1"}, []string{"is not a version"}},
		"neither yes nor no": {
			nothing, []string{"VERSION=" + version, "ALLOW_DIRTY=maybe"}, []string{"invalid ALLOW_DIRTY=maybe"},
		},
		"no such key": {
			nothing,
			[]string{"VERSION=" + version, "KEY=none.pem"},
			[]string{"cannot read KEY=none.pem: give the private key"},
		},
		"no such tag": {nothing, []string{"VERSION=v0.99.9"}, []string{
			"this commit has no tag v0.99.9",
			"git tag -s v0.99.9",
		}},
		"the commit after the tag": {func(t *testing.T, dir string) {
			t.Helper()
			succeed(t, dir, "git", "commit", "--quiet", "--no-gpg-sign", "--allow-empty", "--message", "next")
		}, []string{"VERSION=" + version}, []string{"this commit has no tag " + version}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := clone(t, source, "clone")
			tt.prepare(t, dir)
			out, err := release(t, dir, nil, tt.args...)
			if err == nil {
				t.Error("it has made a release")
			}
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("got %q, want %q in it", out, want)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "dist")); err == nil {
				t.Error("it has begun to build before it refused")
			}
		})
	}
}

// TestDryRun prints the one command, and runs nothing.
func TestDryRun(t *testing.T) {
	t.Parallel()
	dist := filepath.Join(t.TempDir(), "dist")
	out, err := admin(t, nil, "-n", "release", "VERSION="+version, "ALLOW_DIRTY=1", "DIST="+dist)
	if err != nil || !strings.Contains(out, "build/release http01-proxyd-linux-amd64 ") {
		t.Errorf("got %v and\n%s", err, out)
	}
	if _, err := os.Stat(dist); err == nil {
		t.Errorf("it has built something:\n%s", out)
	}
}
