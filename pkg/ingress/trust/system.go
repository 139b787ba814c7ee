// SPDX-License-Identifier: Apache-2.0

//go:build linux

package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// SystemFiles returns the files in which distributions keep the trusted CAs of a host.
// They are the files of crypto/x509 (root_linux.go), with the target of RHEL CoreOS's
// links first.
func SystemFiles() []string {
	return []string{
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // RHEL, Fedora, CoreOS
		"/etc/ssl/certs/ca-certificates.crt",                // Debian, Ubuntu, Gentoo
		"/etc/pki/tls/certs/ca-bundle.crt",
		"/etc/ssl/ca-bundle.pem", // SUSE
		"/etc/pki/tls/cacert.pem",
		"/etc/ssl/cert.pem", // Alpine
	}
}

// System is the trust store of the host: the first of several files that exists.
type System struct {
	paths        []string
	source       *Source
	reportedNone bool // the absence of all files was reported
}

// NewSystem returns the trust store at these paths.
func NewSystem(paths []string) *System { return &System{paths: paths} }

// Paths returns all paths.
func (s *System) Paths() []string { return s.paths }

// Refresh calls [Source.Refresh] of the file that exists.
func (s *System) Refresh(now time.Time, hinted bool) (changed bool, again time.Duration) {
	path := ""
	for _, p := range s.paths {
		if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) {
			path = p
			break
		}
	}
	switch {
	case path == "" && s.source == nil:
		changed, s.reportedNone = !s.reportedNone, true
		return changed, 0
	case path != "" && (s.source == nil || s.source.path != path):
		s.reportedNone, s.source = false, newSystemSource(path)
	}
	return s.source.Refresh(now, hinted)
}

// Source returns the file, or nil.
func (s *System) Source() *Source { return s.source }

// Err returns why the host has no trusted certificates, or why the current file is
// refused.
func (s *System) Err() error {
	if s.source == nil || s.source.Absent() {
		return fmt.Errorf("this host has no file of trusted CAs (searched: %s): install the package ca-certificates, or configure a file of CAs", strings.Join(s.paths, ", "))
	}
	return s.source.Err()
}

// EffectiveRoots returns the certificates in force and a description of their origin:
// the administrator's, or else the host's. host is nil if the host's file is not used.
func EffectiveRoots(admin *Source, host *System) (roots []Certificate, origin string) {
	if host == nil {
		return admin.Roots(), admin.Origin()
	}
	if at := host.Source(); at != nil {
		return at.Roots(), "this host, in " + at.Path()
	}
	return nil, "this host"
}
