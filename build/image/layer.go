// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// file is a regular file that belongs to root.
type file struct {
	path string // absolute
	mode int64
	data []byte
}

// newLayer returns a layer with one file and its parent directories.
func newLayer(f file) (v1.Layer, error) {
	packed, err := f.pack()
	if err != nil {
		return nil, fmt.Errorf("cannot pack %s: %w", f.path, err)
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil },
		tarball.WithCompressedCaching,
		tarball.WithCompressionLevel(gzip.BestCompression),
		tarball.WithMediaType(types.OCILayer),
	)
	if err != nil {
		return nil, fmt.Errorf("cannot create a layer of %s: %w", f.path, err)
	}
	return layer, nil
}

// pack returns the same bytes for the same file on every machine: it contains no
// current time and no user names. The directories are included: otherwise each unpacker
// would choose their modes.
func (f file) pack() ([]byte, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	header := tar.Header{ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
	for _, dir := range parentDirs(f.path) {
		header.Typeflag, header.Name, header.Mode = tar.TypeDir, dir+"/", 0o755
		if err := w.WriteHeader(&header); err != nil {
			return nil, err
		}
	}
	header.Typeflag, header.Name, header.Mode, header.Size = tar.TypeReg, strings.TrimPrefix(f.path, "/"), f.mode, int64(len(f.data))
	if err := w.WriteHeader(&header); err != nil {
		return nil, err
	}
	if _, err := w.Write(f.data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// parentDirs returns the parent directories of an absolute path, outermost first,
// without the root and without a leading slash.
func parentDirs(name string) []string {
	var dirs []string
	for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
		dirs = append(dirs, strings.TrimPrefix(dir, "/"))
	}
	slices.Reverse(dirs)
	return dirs
}
