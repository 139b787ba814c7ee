// SPDX-License-Identifier: Apache-2.0

package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// layoutMarker is a file of every OCI layout
// (https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md).
const layoutMarker = "oci-layout"

// WriteLayout writes the image as an OCI layout and replaces an existing layout. It
// refuses a directory with other contents. podman, skopeo and other tools read the
// layout as oci:DIR.
func WriteLayout(dir string, index v1.ImageIndex) error {
	if err := refuseOtherContents(dir); err != nil {
		return fmt.Errorf("cannot write the image to %s: %w", dir, err)
	}
	next := filepath.Clean(dir) + ".next"
	if err := replace(dir, next, index); err != nil {
		return errors.Join(fmt.Errorf("cannot write the image to %s: %w", dir, err), os.RemoveAll(next))
	}
	return nil
}

// refuseOtherContents returns an error if dir has contents other than an OCI layout:
// they would be deleted.
func refuseOtherContents(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) == 0:
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, layoutMarker)); err != nil {
		return errors.New("the directory has other contents: give another one, or empty it")
	}
	return nil
}

// replace writes the layout to next and renames it to dir. The image is the only entry of the
// layout, so that copying the layout gives its digest.
func replace(dir, next string, index v1.ImageIndex) error {
	if err := os.RemoveAll(next); err != nil {
		return err
	}
	path, err := layout.Write(next, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(next, dir)
}
