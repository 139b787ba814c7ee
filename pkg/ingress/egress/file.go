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
	// settleDelay is how long a changed file must have had the same text before it
	// counts: one that is written in place is empty for a moment, which reads as
	// no proxy.
	settleDelay = 100 * time.Millisecond
	// settleDelayRefused is the same for a file that is refused, empty or gone: it may be
	// amid its replacement.
	settleDelayRefused = time.Second
)

// File is the node's file of variables and what it says. Its methods belong to one
// goroutine.
type File struct {
	path           string
	accepted       *content
	unsettled      *content // what the last look found, while that has not settled
	unsettledSince time.Time
}

type content struct {
	sum       [sha256.Size]byte
	settings  ProxySettings
	readError string // why it is refused
	empty     bool   // or absent
}

func (c content) equal(o content) bool {
	return c.sum == o.sum && c.readError == o.readError && c.empty == o.empty
}

// NewFile is the file at path.
func NewFile(path string) *File { return &File{path: path} }

// Path is where it is.
func (f *File) Path() string { return f.path }

// Refresh reads the file. again is when to look again because it may be being written
// just now; 0 is no wish.
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

// ProxySettings are what the file says; no file is no proxy.
func (f *File) Settings() (ProxySettings, error) {
	switch {
	case f.accepted == nil:
		return ProxySettings{}, fmt.Errorf("%s has not been looked at", f.path)
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
		err = fmt.Errorf("%w: the service is not root: make it world-readable (chmod 0644), or give the proxy in egressProxy of config.yaml", err)
	}
	if err != nil {
		c.readError = err.Error()
	}
	return c
}

// ParseSettings reads the text of a file of variables that is at path. Errors name the path
// and the line, and no value.
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

// ReadFile reads a file once, as it is.
func ReadFile(path string) (ProxySettings, error) {
	text, err := textfile.Read(path, MaxFile)
	if err != nil {
		return ProxySettings{}, err
	}
	return ParseSettings(path, text)
}

// maxBlank bounds a file that holds nothing.
const maxBlank = 1 << 10

// IsBlank reports whether there is a file without anything in it. That of one which
// has no bytes takes no permission to read it: OpenShift's is for root alone.
func IsBlank(path string) bool {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		return true
	}
	text, err := textfile.Read(path, maxBlank)
	return err == nil && len(bytes.TrimSpace(text)) == 0
}
