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

// newLayer returns a layer with files and their parent directories.
func newLayer(files ...file) (v1.Layer, error) {
	packed, err := pack(files)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil },
		tarball.WithCompressedCaching,
		tarball.WithCompressionLevel(gzip.BestCompression),
		tarball.WithMediaType(types.OCILayer),
	)
	if err != nil {
		return nil, fmt.Errorf("cannot create a layer: %w", err)
	}
	return layer, nil
}

// pack returns the same bytes for the same files on every machine: they contain no
// current time and no user names. The directories are included: otherwise each unpacker
// would choose their modes.
func pack(files []file) ([]byte, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	seen := make(map[string]bool)
	for _, f := range files {
		for _, dir := range parentDirs(f.path) {
			if seen[dir] {
				continue
			}
			seen[dir] = true
			if err := w.WriteHeader(header(tar.TypeDir, dir+"/", 0o755, 0)); err != nil {
				return nil, fmt.Errorf("cannot pack %s: %w", f.path, err)
			}
		}
		if err := w.WriteHeader(header(tar.TypeReg, strings.TrimPrefix(f.path, "/"), f.mode, len(f.data))); err != nil {
			return nil, fmt.Errorf("cannot pack %s: %w", f.path, err)
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, fmt.Errorf("cannot pack %s: %w", f.path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

func header(kind byte, name string, mode int64, size int) *tar.Header {
	return &tar.Header{
		Typeflag: kind, Name: name, Mode: mode, Size: int64(size), ModTime: time.Unix(0, 0),
		Format: tar.FormatUSTAR,
	}
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
