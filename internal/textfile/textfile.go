// SPDX-License-Identifier: Apache-2.0

package textfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
)

var (
	// ErrTooLong reports that a file is longer than the limit.
	ErrTooLong = errors.New("file too long")
	// ErrNotRegular reports that a path leads to a directory, a FIFO, a socket or a device.
	ErrNotRegular = errors.New("replace it by one")
)

// Read returns the content of a regular file of at most limit bytes, never nil. It waits for at most
// Timeout. Errors name the path and wrap fs.ErrNotExist, fs.ErrPermission, ErrTooLong, ErrNotRegular or
// ErrHangs where these apply.
func Read(path string, limit int) ([]byte, error) {
	data, _, err := ReadMode(path, limit)
	return data, err
}

// ReadMode is Read, and returns the mode of a regular file too, also with an error.
func ReadMode(path string, limit int) (data []byte, mode fs.FileMode, err error) {
	type file struct {
		data []byte
		mode fs.FileMode
	}
	f, err := Within(path, func() (f file, err error) {
		f.data, f.mode, err = readAll(path, limit)
		return f, err
	})
	return f.data, f.mode, err
}

func readAll(path string, limit int) (data []byte, mode fs.FileMode, err error) {
	f, mode, err := open(path)
	if errors.Is(err, syscall.ELOOP) {
		return nil, 0, fmt.Errorf("%w: replace the symbolic link, which leads to itself, by a file", err)
	}
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err = io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, mode, err
	}
	if len(data) > limit {
		return nil, mode, fmt.Errorf("%w: %s is longer than the %d bytes allowed", ErrTooLong, path, limit)
	}
	return data, mode, nil
}
