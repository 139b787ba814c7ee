// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// SystemFiles are where distributions keep what a host trusts, in one file each: as
// crypto/x509 (root_linux.go) looks for them, but that of RHEL CoreOS before its
// links.
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

// System is what this host trusts: the first of some files that is there.
type System struct {
	paths        []string
	source       *Source
	reportedNone bool // that there is none of them
}

// NewSystem looks at these paths.
func NewSystem(paths []string) *System { return &System{paths: paths} }

// Paths are all of them.
func (s *System) Paths() []string { return s.paths }

// Refresh is as [Source.Look] of the file that is there.
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

// Source is the file; nil where there is none.
func (s *System) Source() *Source { return s.source }

// Err is why nothing of this host can be trusted, or not what its file says now.
func (s *System) Err() error {
	if s.source == nil || s.source.Absent() {
		return fmt.Errorf("this host has no file of trusted CAs (looked for: %s): install its package ca-certificates, or give a file of CAs", strings.Join(s.paths, ", "))
	}
	return s.source.Err()
}

// EffectiveRoots are the certificates that count, and whose they are: the admin's, or where
// there is no file of theirs, this host's; host is nil where it was not looked at.
func EffectiveRoots(admin *Source, host *System) (roots []Certificate, whose string) {
	if host == nil {
		return admin.Roots(), admin.Origin()
	}
	if at := host.Source(); at != nil {
		return at.Roots(), "this host, in " + at.Path()
	}
	return nil, "this host"
}
