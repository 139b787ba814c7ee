// SPDX-License-Identifier: Apache-2.0

package textfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace writes text to path, a file of mode 0600, and creates its directory. After a power
// failure the file contains either the old text or the new one, never a part of it and never
// nothing. A temporary file, whose name begins with a dot, may remain.
func Replace(path string, text []byte) error {
	return ReplaceWith(path, text, func(string) error { return nil })
}

// ReplaceWith is Replace with another mode or label: prepare changes the temporary file before
// its rename. An error of prepare leaves the old file.
func ReplaceWith(path string, text []byte, prepare func(temporary string) error) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the names are not secret, the contents are
		return err
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, prepare(f.Name()), f.Sync(), f.Close())
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
