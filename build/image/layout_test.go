// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/http01-proxyd/http01-proxyd/build/image"
)

func TestLayoutReplacesPrevious(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "dist", "image")
	before := options(t)
	before.Version = "v1.2.2"
	now := build(t, options(t))
	must(t, image.WriteLayout(dir, build(t, before)))
	must(t, image.WriteLayout(dir+"/", now))

	path := must1(layout.FromPath(dir))(t)
	root := must1(path.ImageIndex())(t)
	if err := validate.Index(root); err != nil {
		t.Error(err)
	}
	manifest := must1(root.IndexManifest())(t)
	var got []string
	for _, m := range manifest.Manifests {
		got = append(got, m.Digest.String())
	}
	if diff := cmp.Diff([]string{digest(t, now)}, got); diff != "" {
		t.Errorf("images of the layout, -want +got:\n%s", diff)
	}
	// Index, two manifests and configs, two layers of one architecture, two common layers:
	// nothing of the image before.
	if blobs, err := filepath.Glob(filepath.Join(dir, "blobs", "sha256", "*")); err != nil || len(blobs) != 9 {
		t.Errorf("%d blobs (%v), want 9", len(blobs), err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "*")); err != nil || len(left) != 1 {
		t.Errorf("beside the layout there is something left: %q (%v)", left, err)
	}
}

func TestLayoutKeepsOtherContents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	must(t, os.WriteFile(precious, nil, 0o600))
	err := image.WriteLayout(dir, build(t, options(t)))
	if err == nil || !strings.Contains(err.Error(), "give another one, or empty it") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}
