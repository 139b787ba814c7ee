// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// LastGoodCopy stores the last good CAs of a file, for a start with a rejected file. It
// contains only the certificates. No certificates mean that there was no file. The zero
// value stores nothing. Its sources belong to one goroutine.
type LastGoodCopy struct {
	path string
	// latest is the text of the last good file of this process. Another goroutine writes it,
	// so the stored file can be older.
	latest *[]byte
}

// LastGoodName is the file name of the copy for the ingress.
const LastGoodName = "last-good-ca-bundle.crt"

// NewLastGoodCopy returns a copy of that name in the state directory.
func NewLastGoodCopy(dir, name string) LastGoodCopy {
	return LastGoodCopy{filepath.Join(dir, name), new([]byte)}
}

// originPrefix begins the first line of a copy, which names the original file: the
// configuration may name another file now.
const originPrefix = "# the last good CAs of "

// maxCopy is large enough for MaxBundle with any line length.
const maxCopy = 2 * MaxBundle

func encodeCopy(origin string, roots []Certificate) []byte {
	text := []byte(originPrefix + strconv.Quote(origin) + "\n")
	for _, c := range roots {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.DER})...)
	}
	return text
}

// load returns the last good certificates in PEM, and the path of the original file.
func (k LastGoodCopy) load() (origin string, certificates []byte, err error) {
	if k.path == "" {
		return "", nil, fs.ErrNotExist
	}
	text := *k.latest
	if text == nil {
		if text, err = k.read(); err != nil {
			return "", nil, err
		}
	}
	first, certificates, _ := bytes.Cut(text, []byte("\n"))
	quoted, is := strings.CutPrefix(string(first), originPrefix)
	if is {
		origin, err = strconv.Unquote(quoted)
	}
	if !is || err != nil {
		return "", nil, fmt.Errorf("%s was not written by this service: ignored", k.path)
	}
	return origin, certificates, nil
}

func (k LastGoodCopy) read() ([]byte, error) { return textfile.Read(k.path, maxCopy) }

// save replaces the copy atomically. It does nothing if the text is the same.
func (k LastGoodCopy) save(text []byte) error {
	if old, err := k.read(); err == nil && bytes.Equal(old, text) {
		return nil
	}
	if err := textfile.Replace(k.path, text); err != nil {
		return fmt.Errorf("cannot save the last good CAs: %w", err)
	}
	return nil
}
