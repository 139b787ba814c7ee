// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// WriteFile writes a file on the host's disk as the machine-config-daemon does: a new file
// is renamed over the old one. It creates missing directories. It also works while the host
// is off.
func (h *Host) WriteFile(name, content string, mode fs.FileMode) error {
	return h.write(name, strings.NewReader(content), mode)
}

// Install copies a file of this machine onto the host's disk.
func (h *Host) Install(source, name string, mode fs.FileMode) error {
	f, err := os.Open(source)
	if err != nil {
		return fmt.Errorf("open the file to install on %s: %w", h.Name, err)
	}
	defer func() { _ = f.Close() }()
	return h.write(name, f, mode)
}

// RemoveFile removes a file or a directory tree from the host's disk. A missing file is no
// error.
func (h *Host) RemoveFile(name string) error {
	return h.inRoot(name, func(root *os.Root, name string) error { return root.RemoveAll(name) })
}

// ReadFile reads a file of the host's disk.
func (h *Host) ReadFile(name string) (string, error) {
	var content []byte
	err := h.inRoot(name, func(root *os.Root, name string) (err error) {
		content, err = root.ReadFile(name)
		return err
	})
	return string(content), err
}

func (h *Host) write(name string, from io.Reader, mode fs.FileMode) error {
	return h.inRoot(name, func(root *os.Root, name string) error {
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		next := path.Join(path.Dir(name), "."+path.Base(name)+".new")
		f, err := root.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, from)
		// The mode is set independently of the umask.
		if err := errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
			return err
		}
		return root.Rename(next, name)
	})
}

// inRoot calls act with the host's disk as os.Root, so that no link leads out of it.
func (h *Host) inRoot(name string, act func(root *os.Root, name string) error) error {
	root, err := os.OpenRoot(h.Root)
	if err != nil {
		return fmt.Errorf("open the disk of %s: %w", h.Name, err)
	}
	defer func() { _ = root.Close() }()
	if err := act(root, strings.TrimPrefix(path.Clean(name), "/")); err != nil {
		return fmt.Errorf("%s on %s: %w", name, h.Name, err)
	}
	return nil
}
