// SPDX-License-Identifier: Apache-2.0

package textfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace puts text at path, in a file of mode 0600 and a directory that is made when
// it is absent. A power cut leaves the old file or the new one, never a part, nor an
// empty one. Other files of the directory whose names begin with a dot may be what a
// power cut has left of this.
func Replace(path string, text []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // which files there are is no secret: the files are
		return err
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		if rmErr := os.Remove(f.Name()); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
			err = errors.Join(err, rmErr)
		}
	}
	return err
}
