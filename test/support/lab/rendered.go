// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// RenderedConfig returns the hosts' configuration in the output folder of
// oc-http01 for the pool master.
func RenderedConfig(dir string) ([]byte, error) {
	file := filepath.Join(dir, "98-master-http01-proxyd-config.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the rendered configuration: %w", err)
	}
	_, encoded, found := bytes.Cut(text, []byte("source: data:;base64,"))
	if !found {
		return nil, fmt.Errorf("%s has no file in base64", file)
	}
	encoded, _, _ = bytes.Cut(encoded, []byte("\n"))
	packed, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(encoded)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return io.ReadAll(packed)
}
