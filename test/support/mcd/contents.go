// SPDX-License-Identifier: Apache-2.0

package mcd

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"

	"github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/vincent-petithory/dataurl"
)

const defaultMode fs.FileMode = 0o644 // pkg/daemon/update.go, defaultFilePermissions

// Contents decodes the contents of a file. The MCO supports only data URLs, optionally
// compressed with gzip (pkg/controller/common/helpers.go, DecodeIgnitionFileContents).
func Contents(f types.File) (string, error) {
	if f.Contents.Source == nil {
		return "", nil
	}
	url, err := dataurl.DecodeString(*f.Contents.Source)
	if err != nil {
		return "", fmt.Errorf("decode the contents of %s: %w", f.Path, err)
	}
	switch compression := f.Contents.Compression; {
	case compression == nil || *compression == "":
		return string(url.Data), nil
	case *compression != "gzip":
		return "", fmt.Errorf("decode the contents of %s: compression %q is not supported", f.Path, *compression)
	}
	r, err := gzip.NewReader(bytes.NewReader(url.Data))
	if err != nil {
		return "", fmt.Errorf("decompress the contents of %s: %w", f.Path, err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		return "", fmt.Errorf("decompress the contents of %s: %w", f.Path, err)
	}
	return string(plain), nil
}

func fileMode(f types.File) fs.FileMode {
	if f.Mode == nil {
		return defaultMode
	}
	return fs.FileMode(*f.Mode & int(fs.ModePerm)) // parse rejects other bits
}
