// SPDX-License-Identifier: Apache-2.0

package mcd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Machine is the host that the daemon works on. Paths are absolute.
type Machine interface {
	// Run executes a command as root and returns its standard output, also
	// when it fails; the error then holds its standard error.
	Run(ctx context.Context, name string, args ...string) (string, error)
	// ReadFile's error is fs.ErrNotExist when there is no such file.
	ReadFile(name string) (string, error)
	// WriteFile puts a new file in the place of the old one, with that mode
	// whatever the umask is, and makes missing directories with 0755.
	WriteFile(name, content string, mode fs.FileMode) error
	// RemoveFile is content with a file that is not there.
	RemoveFile(name string) error
}

// exists tells whether there is a file that can be read.
func exists(m Machine, name string) (bool, error) {
	_, err := m.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// rawMode is the st_mode of a path itself, not of what a link leads to
// (inode(7)).
func rawMode(ctx context.Context, m Machine, name string) (uint64, error) {
	out, err := m.Run(ctx, "stat", "--format=%f", name)
	if err != nil {
		return 0, err
	}
	mode, err := strconv.ParseUint(strings.TrimSpace(out), 16, 32)
	if err != nil {
		return 0, fmt.Errorf("stat %s said %q: %w", name, out, err)
	}
	return mode, nil
}
