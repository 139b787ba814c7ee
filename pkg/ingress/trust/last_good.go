// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// LastGoodCopy stores the last good CAs of a file, for a start with a rejected file. It
// contains only the certificates. No certificates mean that there was no file. The zero
// value stores nothing.
type LastGoodCopy struct{ path string }

// LastGoodName is the file name of the copy for the ingress.
const LastGoodName = "last-good-ca-bundle.crt"

// NewLastGoodCopy returns a copy of that name in the state directory.
func NewLastGoodCopy(dir, name string) LastGoodCopy { return LastGoodCopy{filepath.Join(dir, name)} }

// maxCopy is large enough for MaxBundle with any line length.
const maxCopy = 2 * MaxBundle

func encodeCopy(roots []Certificate) []byte {
	text := []byte{}
	for _, c := range roots {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.DER})...)
	}
	return text
}

// load returns the last good certificates in PEM.
func (k LastGoodCopy) load() ([]byte, error) {
	if k.path == "" {
		return nil, fs.ErrNotExist
	}
	return textfile.Read(k.path, maxCopy)
}

// save replaces the copy atomically. It does nothing if the text is the same.
func (k LastGoodCopy) save(text []byte) error {
	if old, err := k.load(); err == nil && bytes.Equal(old, text) {
		return nil
	}
	if err := textfile.Replace(k.path, text); err != nil {
		return fmt.Errorf("cannot save the last good CAs: %w", err)
	}
	return nil
}
