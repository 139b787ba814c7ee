// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Accepted keeps the text of the last accepted configuration in the state
// directory, for a start at which the present one is refused: a key that an
// older binary does not know must not take a working service down.
type Accepted struct {
	path string
}

// NewAccepted keeps the copy in dir, which Save makes when it is absent.
func NewAccepted(dir string) Accepted {
	return Accepted{path: filepath.Join(dir, "last-accepted.yaml")}
}

// Load parses the copy. Without one the error is fs.ErrNotExist.
func (a Accepted) Load() (Config, error) {
	if _, err := os.Stat(a.path); err != nil {
		return Config{}, fmt.Errorf("look for the last accepted configuration: %w", err)
	}
	data, err := Read(a.path)
	if err != nil {
		return Config{}, err
	}
	return Parse(a.path, data)
}

// Save replaces the copy atomically, or does nothing when it is the same.
func (a Accepted) Save(data []byte) error {
	if old, err := os.ReadFile(a.path); err == nil && string(old) == string(data) {
		return nil
	}
	if err := a.save(data); err != nil {
		return fmt.Errorf("keep the accepted configuration: %w", err)
	}
	return nil
}

func (a Accepted) save(data []byte) error {
	dir := filepath.Dir(a.path)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the copy holds what the world-readable original holds
		return err
	}
	f, err := os.CreateTemp(dir, ".last-accepted-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	// A power cut must leave the old copy or the new one, never an empty file,
	// which would read as the default configuration.
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), a.path)
	}
	if err != nil {
		if rmErr := os.Remove(f.Name()); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
			err = errors.Join(err, rmErr)
		}
	}
	return err
}
