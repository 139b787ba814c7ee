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

// LastGoodCopy is where the last good CAs of a file are kept, for a start at which the file is
// refused: these alone, and not what else is in it. None stand for no file. The zero
// value keeps nothing.
type LastGoodCopy struct {
	path string
}

// LastGoodName is the name of the copy of the bundle for the ingress.
const LastGoodName = "last-good-ca-bundle.crt"

// NewLastGoodCopy is a copy of that name in the state directory.
func NewLastGoodCopy(dir, name string) LastGoodCopy { return LastGoodCopy{filepath.Join(dir, name)} }

// originPrefix begins the first line of a copy, which names the file that it is of: the
// configuration may name another by now.
const originPrefix = "# the last good CAs of "

// maxCopy holds MaxBundle however its lines are broken.
const maxCopy = 2 * MaxBundle

// encodeCopy is the text that is kept.
func encodeCopy(origin string, roots []Certificate) []byte {
	text := []byte(originPrefix + strconv.Quote(origin) + "\n")
	for _, c := range roots {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.DER})...)
	}
	return text
}

// load returns the certificates that were kept, in PEM, and whose they are.
func (k LastGoodCopy) load() (origin string, certificates []byte, err error) {
	text, err := k.read()
	if err != nil {
		return "", nil, err
	}
	first, certificates, _ := bytes.Cut(text, []byte("\n"))
	quoted, is := strings.CutPrefix(string(first), originPrefix)
	if is {
		origin, err = strconv.Unquote(quoted)
	}
	if !is || err != nil {
		return "", nil, fmt.Errorf("%s is not what this service writes: it is passed over", k.path)
	}
	return origin, certificates, nil
}

func (k LastGoodCopy) read() ([]byte, error) {
	if k.path == "" {
		return nil, fs.ErrNotExist
	}
	return textfile.Read(k.path, maxCopy)
}

// pendingCopy replaces the copy atomically, or does nothing when it is the same.
func (k LastGoodCopy) save(text []byte) error {
	if k.path == "" {
		return nil
	}
	if old, err := k.read(); err == nil && bytes.Equal(old, text) {
		return nil
	}
	if err := textfile.Replace(k.path, text); err != nil {
		return fmt.Errorf("keep the last good CAs: %w", err)
	}
	return nil
}
