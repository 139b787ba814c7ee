// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Where things stand below the files directory that the Butane sources speak
// of; a checkout is one.
const (
	serviceSource = "butane/service.bu"
	configSource  = "butane/config.bu"
	layeredSource = "butane/layered.bu"
	fcosSource    = "butane/fcos.bu"

	configFile  = "butane/config.yaml"
	imageDropin = "butane/10-image.conf"
	binaryFile  = "bin/http01-proxyd"
)

// inStage puts a files directory together out of the sources and the generated
// files, which win, and removes it after use.
func inStage(sources fs.FS, generated map[string][]byte, use func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "http01-machineconfig-*") // mode 0700
	if err != nil {
		return fmt.Errorf("make a directory for Butane: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.CopyFS(dir, sources); err != nil {
		return fmt.Errorf("lay the sources out for Butane: %w", err)
	}
	for name, text := range generated {
		path := filepath.Join(dir, filepath.FromSlash(name))
		// An embedded file is copied read-only: replace it, do not write to it.
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("replace %s: %w", name, err)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("make room for %s: %w", name, err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return fmt.Errorf("lay %s out for Butane: %w", name, err)
		}
	}
	return use(dir)
}
