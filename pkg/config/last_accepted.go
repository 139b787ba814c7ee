// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// LastAccepted is the copy of the last accepted configuration in the state directory.
// A start that finds an invalid configuration uses it: a key that an older binary does
// not support must not take a working service down.
type LastAccepted struct {
	path string
}

// NewLastAccepted returns the copy in dir. Save creates dir if it does not exist.
func NewLastAccepted(dir string) LastAccepted {
	return LastAccepted{path: filepath.Join(dir, "last-accepted.yaml")}
}

// Load parses the copy. The error wraps fs.ErrNotExist if there is no copy.
func (a LastAccepted) Load() (Config, error) {
	if _, err := os.Stat(a.path); err != nil {
		return Config{}, fmt.Errorf("cannot read the last accepted configuration: %w", err)
	}
	data, err := Read(a.path)
	if err != nil {
		return Config{}, err
	}
	return Parse(a.path, data)
}

// Save replaces the copy atomically. It does nothing if the copy is the same.
func (a LastAccepted) Save(data []byte) error {
	if old, err := os.ReadFile(a.path); err == nil && string(old) == string(data) {
		return nil
	}
	if err := textfile.Replace(a.path, data); err != nil {
		return fmt.Errorf("cannot save the accepted configuration: %w", err)
	}
	return nil
}
