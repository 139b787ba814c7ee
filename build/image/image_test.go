// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/http01-proxyd/http01-proxyd/build/image"
)

// made is the creation time of the images.
func made() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

// write puts files into a new directory.
func write(t *testing.T, contents map[string]string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	paths := make(map[string]string)
	for name, content := range contents {
		paths[name] = filepath.Join(dir, name)
		must(t, os.WriteFile(paths[name], []byte(content), 0o600))
	}
	return paths
}

// shareFolder is a folder of "make share".
func shareFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{
		"bash-completion/completions/http01-proxyd", "bash-completion/completions/oc-http01",
		"fish/vendor_completions.d/http01-proxyd.fish",
		"man/man1/oc-http01.1", "man/man5/http01-proxyd.yaml.5", "man/man8/http01-proxyd.8", "man/man8/http01-proxyd-run.8",
		"zsh/site-functions/_http01-proxyd",
	} {
		must(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	return dir
}

// options are the options of an image for two platforms.
func options(t *testing.T) image.Options {
	t.Helper()
	return image.Options{
		Share:    shareFolder(t),
		Binaries: write(t, map[string]string{"s390x": "for s390x", "amd64": "for amd64"}),
		Created:  made(),
		Version:  "v1.2.3",
		Revision: "0123456789abcdef0123456789abcdef01234567",
	}
}

func build(t *testing.T, o image.Options) v1.ImageIndex {
	t.Helper()
	return must1(image.Build(o))(t)
}

func digest(t *testing.T, index v1.ImageIndex) string {
	t.Helper()
	d := must1(index.Digest())(t)
	return d.String()
}

// entries lists what the layers of an image hold: what `ls -l` would show, and
// for a file its content.
func entries(t *testing.T, img v1.Image) (listing []string, contents map[string]string) {
	t.Helper()
	layers := must1(img.Layers())(t)
	contents = make(map[string]string)
	for _, layer := range layers {
		if kind, err := layer.MediaType(); err != nil || kind != types.OCILayer {
			t.Errorf("a layer is %s (%v), want %s", kind, err, types.OCILayer)
		}
		data, err := layer.Uncompressed()
		must(t, err)
		for r := tar.NewReader(data); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
			listing = append(listing, fmt.Sprintf("%s %d:%d %q %q %d /%s", h.FileInfo().Mode(), h.Uid, h.Gid, h.Uname, h.Gname,
				h.ModTime.Unix(), h.Name))
			if h.Typeflag == tar.TypeReg {
				content := must1(io.ReadAll(r))(t)
				contents["/"+h.Name] = string(content)
			}
		}
		must(t, data.Close())
	}
	return listing, contents
}

func TestImageFiles(t *testing.T) {
	t.Parallel()
	roots := must1(image.Roots())(t)
	wantListing := []string{
		`drwxr-xr-x 0:0 "" "" 0 /etc/`,
		`drwxr-xr-x 0:0 "" "" 0 /etc/ssl/`,
		`drwxr-xr-x 0:0 "" "" 0 /etc/ssl/certs/`,
		`-rw-r--r-- 0:0 "" "" 0 /etc/ssl/certs/ca-certificates.crt`,
		`drwxr-xr-x 0:0 "" "" 0 /usr/`,
		`drwxr-xr-x 0:0 "" "" 0 /usr/share/`,
		`drwxr-xr-x 0:0 "" "" 0 /usr/share/bash-completion/`,
		`drwxr-xr-x 0:0 "" "" 0 /usr/share/bash-completion/completions/`,
		`-rw-r--r-- 0:0 "" "" 0 /usr/share/bash-completion/completions/http01-proxyd`,
		`drwxr-xr-x 0:0 "" "" 0 /usr/share/fish/`,
		`drwxr-xr-x 0:0 "" "" 0 /usr/share/fish/vendor_completions.d/`,
		`-rw-r--r-- 0:0 "" "" 0 /usr/share/fish/vendor_completions.d/http01-proxyd.fish`,
		`drwxr-xr-x 0:0 "" "" 0 /usr/share/man/`,
		`drwxr-xr-x 0:0 "" "" 0 /usr/share/man/man5/`,
		`-rw-r--r-- 0:0 "" "" 0 /usr/share/man/man5/http01-proxyd.yaml.5`,
		`drwxr-xr-x 0:0 "" "" 0 /usr/share/man/man8/`,
		`-rw-r--r-- 0:0 "" "" 0 /usr/share/man/man8/http01-proxyd-run.8`,
		`-rw-r--r-- 0:0 "" "" 0 /usr/share/man/man8/http01-proxyd.8`,
		`drwxr-xr-x 0:0 "" "" 0 /usr/share/zsh/`,
		`drwxr-xr-x 0:0 "" "" 0 /usr/share/zsh/site-functions/`,
		`-rw-r--r-- 0:0 "" "" 0 /usr/share/zsh/site-functions/_http01-proxyd`,
		`drwxr-xr-x 0:0 "" "" 0 /usr/`,
		`drwxr-xr-x 0:0 "" "" 0 /usr/bin/`,
		`-rwxr-xr-x 0:0 "" "" 0 /usr/bin/http01-proxyd`,
	}
	index := build(t, options(t))
	manifest := must1(index.IndexManifest())(t)
	var archs []string
	for _, m := range manifest.Manifests {
		arch := m.Platform.Architecture
		archs = append(archs, arch)
		img := must1(index.Image(m.Digest))(t)
		listing, contents := entries(t, img)
		if diff := cmp.Diff(wantListing, listing); diff != "" {
			t.Errorf("%s: entries, -want +got:\n%s", arch, diff)
		}
		want := map[string]string{image.BinaryPath: "for " + arch, image.CertificatesPath: string(roots)}
		for _, name := range []string{
			"bash-completion/completions/http01-proxyd", "fish/vendor_completions.d/http01-proxyd.fish",
			"man/man5/http01-proxyd.yaml.5", "man/man8/http01-proxyd.8", "man/man8/http01-proxyd-run.8",
			"zsh/site-functions/_http01-proxyd",
		} {
			want[image.SharePath+"/"+name] = name
		}
		if diff := cmp.Diff(want, contents); diff != "" {
			t.Errorf("%s: contents, -want +got:\n%s", arch, diff)
		}
	}
	if diff := cmp.Diff([]string{"amd64", "s390x"}, archs); diff != "" {
		t.Errorf("platforms, -want +got:\n%s", diff)
	}
}

func TestImageMetadata(t *testing.T) {
	t.Parallel()
	labels := map[string]string{
		"org.opencontainers.image.title": "http01-proxyd",
		"org.opencontainers.image.description": "ACME HTTP-01 challenge proxy on the API VIP: the binary for the host, to " +
			"be copied out",
		"org.opencontainers.image.source":   "https://github.com/http01-proxyd/http01-proxyd",
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.created":  "2026-03-04T05:06:07Z",
		"org.opencontainers.image.version":  "v1.2.3",
		"org.opencontainers.image.revision": "0123456789abcdef0123456789abcdef01234567",
	}
	anonymous := maps.Clone(labels)
	delete(anonymous, "org.opencontainers.image.version")
	delete(anonymous, "org.opencontainers.image.revision")
	anonymous["org.opencontainers.image.created"] = "1970-01-01T00:00:00Z"

	known := options(t)
	for name, tt := range map[string]struct {
		options image.Options
		created time.Time
		labels  map[string]string
	}{
		"a commit":        {known, made(), labels},
		"no known commit": {image.Options{Binaries: known.Binaries, Share: known.Share}, time.Unix(0, 0).UTC(), anonymous},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			index := build(t, tt.options)
			manifest := must1(index.IndexManifest())(t)
			if manifest.MediaType != types.OCIImageIndex {
				t.Errorf("the index is %s", manifest.MediaType)
			}
			if diff := cmp.Diff(tt.labels, manifest.Annotations); diff != "" {
				t.Errorf("annotations of the index, -want +got:\n%s", diff)
			}
			for _, m := range manifest.Manifests {
				if diff := cmp.Diff(&v1.Platform{OS: "linux", Architecture: m.Platform.Architecture}, m.Platform); diff != "" {
					t.Errorf("platform, -want +got:\n%s", diff)
				}
				img := must1(index.Image(m.Digest))(t)
				checkImage(t, img, m, tt.created, tt.labels)
			}
		})
	}
}

// checkImage compares the metadata of the image for one platform.
func checkImage(t *testing.T, img v1.Image, m v1.Descriptor, created time.Time, labels map[string]string) {
	t.Helper()
	own := must1(img.Manifest())(t)
	if m.MediaType != types.OCIManifestSchema1 || own.MediaType != m.MediaType ||
		own.Config.MediaType != types.OCIConfigJSON {
		t.Errorf("media types %s, %s and %s are not OCI's", m.MediaType, own.MediaType, own.Config.MediaType)
	}
	if diff := cmp.Diff(labels, own.Annotations); diff != "" {
		t.Errorf("annotations, -want +got:\n%s", diff)
	}
	config := must1(img.ConfigFile())(t)
	if config.OS != "linux" || config.Architecture != m.Platform.Architecture || !config.Created.Equal(created) {
		t.Errorf("the config has %s/%s, %s", config.OS, config.Architecture, config.Created)
	}
	if diff := cmp.Diff(v1.Config{Entrypoint: []string{"/usr/bin/http01-proxyd"}, Labels: labels},
		config.Config); diff != "" {
		t.Errorf("config, -want +got:\n%s", diff)
	}
	if len(config.RootFS.DiffIDs) != 3 || len(config.History) != 3 {
		t.Errorf("%d layers and %d lines of history, want 3 and 3", len(config.RootFS.DiffIDs), len(config.History))
	}
}

// TestCommonLayersAreShared: what did not change is not pulled again.
func TestCommonLayersAreShared(t *testing.T) {
	t.Parallel()
	layers := func(o image.Options) []string {
		index := build(t, o)
		manifest := must1(index.IndexManifest())(t)
		img := must1(index.Image(manifest.Manifests[0].Digest))(t)
		own := must1(img.Manifest())(t)
		var all []string
		for _, l := range own.Layers {
			all = append(all, l.Digest.String())
		}
		return all
	}
	old := options(t)
	upgraded := old
	upgraded.Version, upgraded.Created = "v1.3.0", made().AddDate(0, 1, 0)
	upgraded.Binaries = write(t, map[string]string{"amd64": "upgraded"})
	before, after := layers(old), layers(upgraded)
	if before[0] != after[0] || before[1] != after[1] || before[2] == after[2] {
		t.Errorf("layers %q became %q: want only the last to change", before, after)
	}
}

func TestBuildRefuses(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	for name, tt := range map[string]struct {
		options image.Options
		want    string
	}{
		"no binary": {image.Options{}, "no binary given"},
		"no file": {image.Options{Binaries: map[string]string{"arm64": missing}}, "build the image for arm64: open " +
			missing},
		"no man pages": {image.Options{Binaries: map[string]string{"arm64": missing}, Share: missing}, missing +
			" has no bash-completion/completions/http01-proxyd: run make share"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := image.Build(tt.options); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// raw is an index as a registry would send it.
func raw(t *testing.T, index v1.ImageIndex) []byte {
	t.Helper()
	manifest := must1(index.RawManifest())(t)
	return bytes.Clone(manifest)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must1 gives what a call returned, unless that was an error.
func must1[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return value
	}
}
