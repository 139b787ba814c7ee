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

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

const (
	// settleDelay is how long a changed file must be unchanged before it is used. A
	// file that is written in place is empty for a moment, which would mean no proxy.
	settleDelay = 100 * time.Millisecond
	// settleDelayRefused applies to a file that is refused, empty or missing: it may be
	// in the middle of a replacement.
	settleDelayRefused = time.Second
)

// File is the node's file of variables and its settings. One goroutine owns it.
type File struct {
	path           string
	accepted       *content
	unsettled      *content // the last content, while it has not settled
	unsettledSince time.Time
}

type content struct {
	sum       [sha256.Size]byte
	settings  ProxySettings
	readError string // the reason why the file is refused
	empty     bool   // or absent
}

func (c content) equal(o content) bool {
	return c.sum == o.sum && c.readError == o.readError && c.empty == o.empty
}

// NewFile returns the file at path.
func NewFile(path string) *File { return &File{path: path} }

// Path returns the path.
func (f *File) Path() string { return f.path }

// Refresh reads the file. again is the time until the next call while the file may
// still be written; 0 otherwise.
func (f *File) Refresh(now time.Time) (again time.Duration) {
	found := f.read()
	switch {
	case f.accepted == nil || f.accepted.equal(found):
		f.accepted, f.unsettled = &found, nil
		return 0
	case f.unsettled == nil || !f.unsettled.equal(found) || now.Before(f.unsettledSince):
		f.unsettled, f.unsettledSince = &found, now
	}
	if wait := found.requiredDelay() - now.Sub(f.unsettledSince); wait > 0 {
		return wait
	}
	f.accepted, f.unsettled = &found, nil
	return 0
}

func (c content) requiredDelay() time.Duration {
	if c.empty || c.readError != "" {
		return settleDelayRefused
	}
	return settleDelay
}

// Settings returns the settings in the file. A missing file means no proxy.
func (f *File) Settings() (ProxySettings, error) {
	switch {
	case f.accepted == nil:
		return ProxySettings{}, fmt.Errorf("%s has not been read", f.path)
	case f.accepted.readError != "":
		return ProxySettings{}, errors.New(f.accepted.readError)
	default:
		return f.accepted.settings, nil
	}
}

func (f *File) read() (c content) {
	text, err := textfile.Read(f.path, MaxFile)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		c.sum, c.empty = sha256.Sum256(text), len(text) == 0
		c.settings, err = ParseSettings(f.path, text)
	} else if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("%w: the service does not run as root: make the file world-readable (chmod 0644), or set the proxy in egressProxy of config.yaml", err)
	}
	if err != nil {
		c.readError = err.Error()
	}
	return c
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
