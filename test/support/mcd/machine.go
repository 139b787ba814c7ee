// SPDX-License-Identifier: Apache-2.0

package mcd

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Machine is the host that the daemon manages. Paths are absolute.
type Machine interface {
	// Run executes a command as root and returns its standard output, also on failure. The
	// error includes its standard error.
	Run(ctx context.Context, name string, args ...string) (string, error)
	// ReadFile returns fs.ErrNotExist for a missing file.
	ReadFile(name string) (string, error)
	// WriteFile replaces a file by a new one with this mode, independent of the umask, and
	// creates missing directories with 0755.
	WriteFile(name, content string, mode fs.FileMode) error
	// RemoveFile returns no error for a missing file.
	RemoveFile(name string) error
}

// rawMode returns the st_mode of a path without following links (inode(7)).
func rawMode(ctx context.Context, m Machine, name string) (uint64, error) {
	out, err := m.Run(ctx, "stat", "--format=%f", name)
	if err != nil {
		return 0, err
	}
	mode, err := strconv.ParseUint(strings.TrimSpace(out), 16, 32)
	if err != nil {
		return 0, fmt.Errorf("stat %s printed %q: %w", name, out, err)
	}
	return mode, nil
}
