// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// LastAccepted keeps the text of the last accepted configuration in the state
// directory, for a start at which the present one is refused: a key that an
// older binary does not know must not take a working service down.
type LastAccepted struct {
	path string
}

// NewLastAccepted keeps the copy in dir, which Save makes when it is absent.
func NewLastAccepted(dir string) LastAccepted {
	return LastAccepted{path: filepath.Join(dir, "last-accepted.yaml")}
}

// Load parses the copy. Without one the error is fs.ErrNotExist.
func (a LastAccepted) Load() (Config, error) {
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
func (a LastAccepted) Save(data []byte) error {
	if old, err := os.ReadFile(a.path); err == nil && string(old) == string(data) {
		return nil
	}
	if err := textfile.Replace(a.path, data); err != nil {
		return fmt.Errorf("keep the accepted configuration: %w", err)
	}
	return nil
}
