// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/settled"
	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// File is the node's file of variables and its settings. One goroutine owns it.
type File struct {
	path string
	file settled.File[content, ProxySettings]
}

type content struct {
	sum      [sha256.Size]byte
	rejected string // why, or empty
	empty    bool   // or absent
}

// NewFile returns the file at path.
func NewFile(path string) *File { return &File{path: path} }

// Path returns the path.
func (f *File) Path() string { return f.path }

// Refresh reads the file. again is the time until the next call while the file may
// still be written; 0 otherwise.
func (f *File) Refresh(now time.Time) (again time.Duration) {
	found, settings, err := f.read()
	delay := settled.ChangeDelay
	_, read := f.file.Current()
	switch {
	case !read:
		delay = 0
	case found.empty || found.rejected != "":
		delay = settled.RejectedDelay
	}
	if again = f.file.Wait(found, delay, now); again == 0 {
		f.file.Take(found, settings, err)
	}
	return again
}

// Settings returns the settings in the file. A missing file means no proxy.
func (f *File) Settings() (ProxySettings, error) {
	if _, read := f.file.Current(); !read {
		return ProxySettings{}, fmt.Errorf("%s has not been read", f.path)
	}
	if err := f.file.Err(); err != nil {
		return ProxySettings{}, err
	}
	settings, _ := f.file.Value()
	return settings, nil
}

func (f *File) read() (c content, settings ProxySettings, err error) {
	text, err := textfile.Read(f.path, MaxFile)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		c.sum, c.empty = sha256.Sum256(text), len(text) == 0
		settings, err = ParseSettings(f.path, text)
	} else if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("%w: the service does not run as root: make the file world-readable (chmod 0644), or set the proxy in egressProxy of config.yaml", err)
	}
	if err != nil {
		c.rejected = err.Error()
	}
	return c, settings, err
}

// ParseSettings parses the text of a file of variables. Errors contain the path and the
// line, and no value.
func ParseSettings(path string, text []byte) (ProxySettings, error) {
	e, err := ReadEnvironment(text)
	if err == nil {
		var s ProxySettings
		if s, err = FromEnvironment(path, e); err == nil {
			return s, nil
		}
	}
	return ProxySettings{}, fmt.Errorf("%s: %w", path, err)
}

// ReadFile reads and parses a file once.
func ReadFile(path string) (ProxySettings, error) {
	text, err := textfile.Read(path, MaxFile)
	if err != nil {
		return ProxySettings{}, err
	}
	return ParseSettings(path, text)
}

// maxBlank limits a file without content.
const maxBlank = 1 << 10

// IsBlank reports whether a file exists without content. For a file of 0 bytes no read
// permission is required: OpenShift's file is readable by root only.
func IsBlank(path string) bool {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		return true
	}
	text, err := textfile.Read(path, maxBlank)
	return err == nil && len(bytes.TrimSpace(text)) == 0
}
