// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// maxFileBytes is far above any real configuration.
const maxFileBytes = 256 << 10

// Read returns the text of a configuration file. The text is nil for a file that does not
// exist, and empty for an empty file. Both mean the default configuration.
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
