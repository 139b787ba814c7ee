// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// maxFileBytes is far above any real configuration.
const maxFileBytes = 256 << 10

// Read returns the text of a configuration file. The text of a file that does not
// exist is nil, that of an empty file is not. Both mean the default configuration.
func Read(path string) ([]byte, error) {
	data, err := textfile.Read(path, maxFileBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, textfile.ErrTooLong):
		return nil, Problems{{
			Where: path, Line: 1, Column: 1,
			Message:     fmt.Sprintf("the file is larger than %d bytes", maxFileBytes),
			Remediation: "use only the documented keys",
		}}
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("cannot read the configuration: %w: the service does not run as root: "+
			"make the file world-readable (chmod 0644)", err)
	case err != nil:
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	return data, nil
}

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
