// SPDX-License-Identifier: Apache-2.0

package textfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// ErrTooLong reports that a file is longer than the limit.
var ErrTooLong = errors.New("file too long")

// Read returns the content of a regular file of at most limit bytes, never nil. Errors
// name the path and wrap fs.ErrNotExist, fs.ErrPermission or ErrTooLong where these
// apply.
func Read(path string, limit int) (data []byte, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%w: replace the symbolic link, which leads to itself, by a file", err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: replace it by one", path)
	}
	data, err = io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > limit {
		return nil, fmt.Errorf("%w: %s is longer than the %d bytes allowed", ErrTooLong, path, limit)
	}
	return data, nil
}
