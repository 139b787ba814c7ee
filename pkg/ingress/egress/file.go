// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/settled"
	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// maxFile limits a file of variables. It is far above any real list of names.
const maxFile = 1 << 20

// File is the node's file of variables and its settings. One goroutine owns it.
type File struct {
	path string
	file settled.File[string, ProxySettings]
}

// NewFile returns the file at path.
func NewFile(path string) *File { return &File{path: path} }

// Refresh reads the file. retry is the time until the next call while the file may
// still be written; 0 otherwise.
func (f *File) Refresh(now time.Time) (retry time.Duration) {
	text, err := textfile.Read(f.path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = nil, nil // no proxy
	}
	found := string(text)
	var settings ProxySettings
	switch {
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w: the service does not run as root: make the file world-readable (chmod 0644), "+
			"or set the proxy in egressProxy of config.yaml", err)
	case err == nil:
		settings, err = parse(f.path, found)
	}
	delay := settled.ChangeDelay
	switch _, read := f.file.Current(); {
	case !read:
		delay = 0
	case found == "" || err != nil:
		delay = settled.RejectedDelay
	}
	if err != nil {
		found += "\x00" + err.Error()
	}
	if retry = f.file.Wait(found, delay, now); retry == 0 {
		f.file.Take(found, settings, err)
	}
	return retry
}

// Settings returns the settings of the last content that settled. A missing file means no
// proxy.
func (f *File) Settings() (ProxySettings, error) {
	settings, _ := f.file.Value()
	return settings, f.file.Err()
}

// ReadFile reads and parses a file once. Errors contain the path and the line, but no value.
func ReadFile(path string) (ProxySettings, error) {
	text, err := textfile.Read(path, maxFile)
	if err != nil {
		return ProxySettings{}, err
	}
	return parse(path, string(text))
}

func parse(path, text string) (ProxySettings, error) {
	s, err := parseEnvironment(text)
	if err != nil {
		return ProxySettings{}, fmt.Errorf("%s: %w", path, err)
	}
	s.Source = path
	return s, nil
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
