// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/internal/settled"
	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// Source is a file of CAs and the certificates in use. One goroutine owns it.
type Source struct {
	path     string
	limit    int
	lastGood LastGoodCopy // the zero value: no copy is kept

	file       settled.File[content, []Certificate] // a missing file is good and contains no roots
	assessment Bundle                               // of the current content, without its Roots
	assessed   time.Time                            // when it was made

	pendingCopy []byte // the copy that must still be written, or nil
}

// NewSource returns the source of an administrator's bundle. kept stores a copy of
// the last good file, unless it is the zero value.
func NewSource(path string, kept LastGoodCopy) *Source {
	return &Source{path: path, limit: MaxBundle, lastGood: kept}
}

func newSystemSource(path string) *Source { return &Source{path: path, limit: MaxSystem} }

// Path returns the path of the file.
func (s *Source) Path() string { return s.path }

// Roots returns the certificates in use: the last good ones while the file is rejected. The
// caller must not change them.
func (s *Source) Roots() []Certificate {
	roots, _ := s.file.Value()
	return roots
}

// Err returns why the file is rejected, or nil.
func (s *Source) Err() error { return s.file.Err() }

// Assessment returns the result for the current file, without the certificates.
func (s *Source) Assessment() Bundle { return s.assessment }

// Absent reports whether the last good state is that there is no file.
func (s *Source) Absent() bool { return s.Loaded() && len(s.Roots()) == 0 }

// Loaded reports whether the source is ready: it loaded certificates, or there is no file.
func (s *Source) Loaded() bool {
	_, ok := s.file.Value()
	return ok
}

// content identifies what a read found.
type content struct {
	sum     [sha256.Size]byte
	failure string // why there is no content
}

// assessmentInterval is when the same content is assessed again: certificates become valid, and
// expire.
const assessmentInterval = 10 * time.Minute

// Refresh reads the file, and accepts it once it settled. retry is the time until the next
// call, if that must be soon.
func (s *Source) Refresh(now time.Time) (retry time.Duration) {
	text, err := s.read()
	found := content{sum: sha256.Sum256(text)}
	absent := errors.Is(err, fs.ErrNotExist)
	if err != nil {
		found.failure = err.Error()
	}
	known := s.file.Is(found)
	// The clock can be set back.
	if age := now.Sub(s.assessed); known && s.Loaded() && age >= 0 && age < assessmentInterval {
		s.file.Accept(found)
		return 0
	}
	var bundle Bundle
	switch {
	case absent:
		err = nil
	case err == nil:
		if bundle, err = filter(text, s.limit, now); err != nil {
			err = fmt.Errorf("%s: %w", s.path, err)
		}
	}
	delay := settled.ChangeDelay
	if _, read := s.file.Current(); !read || known {
		delay = 0
	} else if absent || err != nil {
		delay = settled.RejectedDelay
	}
	if retry = s.file.Wait(found, delay, now); retry == 0 {
		s.accept(bundle, err, found, now)
	}
	return retry
}

func (s *Source) read() ([]byte, error) {
	text, err := textfile.Read(s.path, s.limit)
	switch {
	case errors.Is(err, textfile.ErrTooLong):
		err = fmt.Errorf("%s: %w", s.path, TooLarge(s.limit))
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w: the service does not run as root: make the file world-readable (chmod 0644)", err)
	}
	return text, err
}

// accept starts to use a good file. After a rejected file, the last good one stays in use.
func (s *Source) accept(bundle Bundle, err error, found content, now time.Time) {
	roots := bundle.Roots
	bundle.Roots = nil
	s.file.Take(found, roots, err)
	s.assessment, s.assessed = bundle, now
	switch {
	case err == nil && s.lastGood != (LastGoodCopy{}):
		s.pendingCopy = encodeCopy(roots)
	case err != nil && !s.Loaded():
		s.useLastGood(now)
	}
}

// useLastGood starts to use the stored copy of an earlier run, if there is a good one.
func (s *Source) useLastGood(now time.Time) {
	certificates, err := s.lastGood.load()
	var bundle Bundle
	if err == nil && len(certificates) > 0 { // otherwise there was no file
		bundle, err = filter(certificates, maxCopy, now)
	}
	if err == nil {
		s.file.Restore(bundle.Roots)
	}
}

// UsesLastGood reports whether the certificates in use come from an earlier file.
func (s *Source) UsesLastGood() bool { return s.file.Stale() }

// UnsavedCopy returns a function that writes the copy of the last good CAs, or nil if the copy
// is up to date. The function can be called in another goroutine, because an fsync can take
// seconds.
func (s *Source) UnsavedCopy() (write func() error) {
	text, lastGood := s.pendingCopy, s.lastGood
	if text == nil {
		return nil
	}
	s.pendingCopy = nil
	return func() error { return lastGood.save(text) }
}

// maxDescribedNames is how many CAs a diagnosis names, and how much of each name.
const (
	maxDescribedNames   = 3
	maxDescribedSubject = 80
)

// Describe names certificates in one line, for diagnoses.
func Describe(origin string, roots []Certificate) string {
	origin = printable.Line(origin)
	names := make([]string, 0, maxDescribedNames+1)
	for _, c := range roots[:min(maxDescribedNames, len(roots))] {
		names = append(names, strconv.Quote(printable.Truncate(c.Subject, maxDescribedSubject)))
	}
	if len(roots) > maxDescribedNames {
		names = append(names, "…")
	}
	switch len(roots) {
	case 0:
		return "no CA of " + origin
	case 1:
		return fmt.Sprintf("the CA of %s (%s)", origin, names[0])
	default:
		return fmt.Sprintf("the %d CAs of %s (%s)", len(roots), origin, strings.Join(names, ", "))
	}
}

// DER returns the encoded certificates.
func DER(roots []Certificate) [][]byte {
	all := make([][]byte, len(roots))
	for i, c := range roots {
		all[i] = c.DER
	}
	return all
}

// NewCABundle returns the value with these roots for other processes. owner is their
// source, for findings.
func NewCABundle(owner string, roots []Certificate) *ingress.CABundle {
	return &ingress.CABundle{Roots: DER(roots), Description: Describe(owner, roots)}
}

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
	paths  []string
	source *Source
}

// NewSystem returns the trust store at these paths.
func NewSystem(paths []string) *System { return &System{paths: paths} }

// Paths returns all paths.
func (s *System) Paths() []string { return s.paths }

// Refresh calls [Source.Refresh] of the file that exists.
func (s *System) Refresh(now time.Time) (retry time.Duration) {
	for _, path := range s.paths {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if s.source == nil || s.source.path != path {
			s.source = newSystemSource(path)
		}
		break
	}
	if s.source == nil {
		return 0
	}
	return s.source.Refresh(now)
}

// Source returns the file, or nil.
func (s *System) Source() *Source { return s.source }

// Err returns the reason why the host trusts no certificates, or why the current file is
// rejected.
func (s *System) Err() error {
	if s.source == nil || s.source.Absent() {
		return fmt.Errorf("this host has no file of trusted CAs (searched: %s): "+
			"install the package ca-certificates, or configure a file of CAs", strings.Join(s.paths, ", "))
	}
	return s.source.Err()
}

// EffectiveRoots returns the certificates in use and a description of their origin: the
// administrator's, or else the host's. host is nil if the host's file is not used.
func EffectiveRoots(admin *Source, host *System) (roots []Certificate, origin string) {
	if host == nil {
		return admin.Roots(), admin.Path()
	}
	if at := host.Source(); at != nil {
		return at.Roots(), "this host, in " + at.Path()
	}
	return nil, "this host"
}
