// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package textfile

import (
	"fmt"
	"io/fs"
	"os"
)

// open opens a regular file. The administrator's tool runs on other systems than Linux.
func open(path string) (*os.File, fs.FileMode, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file: %w", path, ErrNotRegular)
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, info.Mode(), nil
}
