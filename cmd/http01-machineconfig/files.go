// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/machineconfig"
)

// readConfig reads a configuration as the host does, but one that is named has
// to be there. No name is no configuration.
func readConfig(path string) (*machineconfig.Input, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // none was asked for
	}
	text, err := config.Read(path)
	if err == nil && text == nil {
		err = fmt.Errorf("read the configuration: %w", &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist})
	}
	return &machineconfig.Input{Name: path, Text: text}, err
}

// readInput reads a file of at most limit bytes; no name is no file.
func readInput(path string, limit int64) (*machineconfig.Input, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // none was asked for
	}
	text, err := readFile(path, limit)
	return &machineconfig.Input{Name: path, Text: text}, err
}

// readFile reads a file of at most limit bytes.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := readAll(f, path, limit)
	return text, errors.Join(err, f.Close())
}

// readAll reads at most limit bytes.
func readAll(r io.Reader, name string, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case int64(len(text)) > limit:
		return nil, fmt.Errorf("read %s: it is longer than %d bytes: is it the right file?", name, limit)
	}
	return text, nil
}

// write puts the files into dir, each one whole or not at all.
func write(dir string, outputs []output) error {
	for _, o := range outputs {
		if err := replace(filepath.Join(dir, filepath.FromSlash(o.File)), o.Text); err != nil {
			return fmt.Errorf("write %s: %w", o.File, err)
		}
	}
	return nil
}

func replace(path string, text []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // nothing in it is secret
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// printAll writes the files as one YAML stream, or the only one as it is.
func printAll(w io.Writer, outputs []output) error {
	for i, o := range outputs {
		if i > 0 {
			if _, err := io.WriteString(w, "---\n"); err != nil {
				return fmt.Errorf("print: %w", err)
			}
		}
		if _, err := w.Write(o.Text); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return nil
}
