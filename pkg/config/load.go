// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxFileBytes is far above any real configuration.
const maxFileBytes = 256 << 10

// Read returns the text of a configuration file, which is nil for an absent
// file and not nil for an empty one. Both mean the default configuration.
func Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("read the configuration: %w: the service is not root: make it world-readable (chmod 0644)", err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	if len(data) > maxFileBytes {
		return nil, Problems{{
			File: path, Line: 1, Column: 1,
			Message: fmt.Sprintf("the file is larger than %d bytes", maxFileBytes),
			Mend:    "keep to the documented keys",
		}}
	}
	return data, nil
}
