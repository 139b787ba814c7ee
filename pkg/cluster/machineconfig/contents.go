// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"bytes"
	"compress/gzip"
	"io"

	"github.com/vincent-petithory/dataurl"
)

// FileContents returns the contents of a file in a MachineConfig as the daemon writes them:
// inline data, with gzip or no compression (the machine-config-operator's
// pkg/controller/common/helpers.go, DecodeIgnitionFileContents). ok is false for contents that
// it cannot write, or of more than limit bytes.
func FileContents(source, compression *string, limit int64) (text []byte, ok bool) {
	if source == nil || *source == "" {
		return nil, true
	}
	url, err := dataurl.DecodeString(*source)
	if err != nil {
		return nil, false
	}
	var reader io.Reader = bytes.NewReader(url.Data)
	if compression != nil && *compression != "" {
		if reader, err = gzip.NewReader(reader); *compression != "gzip" || err != nil {
			return nil, false
		}
	}
	text, err = io.ReadAll(io.LimitReader(reader, limit+1))
	return text, err == nil && int64(len(text)) <= limit
}
