// SPDX-License-Identifier: Apache-2.0

//go:build linux

package trust

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/internal/settled"
	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// Source is a file of CAs and the certificates in force. One goroutine owns it.
type Source struct {
	path     string
	limit    int
	lastGood LastGoodCopy // the zero value: no copy is kept

	file       settled.File[content, inForce]
	assessment Bundle // of the current content, without its Roots

	stamp       fileStamp // of the last read
	pendingCopy []byte    // the copy that must still be written, or nil
}

// inForce is what a good file puts into force. A missing file is good and has no roots.
type inForce struct {
	roots []Certificate
	path  string
}

// NewSource returns the source of an administrator's bundle. kept stores a copy of
// the last good file, unless it is the zero value.
func NewSource(path string, kept LastGoodCopy) *Source {
	return &Source{path: path, limit: MaxBundle, lastGood: kept}
}

func newSystemSource(path string) *Source { return &Source{path: path, limit: MaxSystem} }

// Path returns the path of the file.
func (s *Source) Path() string { return s.path }

// Origin returns the path of the file that the certificates in force come from. After a
// restart with another path it may be an earlier path.
func (s *Source) Origin() string { return cmp.Or(s.inForce().path, s.path) }

// Roots returns the certificates in force: the last good ones while the file is
// rejected. They must not be changed.
func (s *Source) Roots() []Certificate { return s.inForce().roots }

func (s *Source) inForce() inForce {
	v, _ := s.file.Value()
	return v
}

// Err returns why the file is rejected, or nil.
func (s *Source) Err() error { return s.file.Err() }

// Assessment returns the result for the current file, without the certificates.
func (s *Source) Assessment() Bundle { return s.assessment }

// Absent reports whether the last good state is that there is no file.
func (s *Source) Absent() bool { return s.Loaded() && len(s.Roots()) == 0 }

// Loaded reports whether a state is in force: certificates, or that there is no file.
func (s *Source) Loaded() bool {
	_, ok := s.file.Value()
	return ok
}

type content struct {
	sum        [sha256.Size]byte
	absent     bool
	readError  string // the read error
	rejected   bool
	unreadable bool // missing permission, or a disk error
}

// fileStamp usually differs after a change of the file.
type fileStamp struct {
	device, inode     uint64
	size              int64
	changed, modified syscall.Timespec
}

// Refresh reads the file, accepts it once it has settled, and reports whether there is
// a new assessment. again is the time until the next call, if that must be soon.
// Without a hint that the file may have changed, the file is read only if its stamp
// differs.
func (s *Source) Refresh(now time.Time, hinted bool) (changed bool, again time.Duration) {
	mark := s.currentStamp()
	if !hinted && s.unchanged(mark) && s.assessment.ValidAt(now) {
		return false, s.untilReassessment(now)
	}
	bundle, found, err := s.read(now)
	s.stamp = mark
	delay := found.requiredDelay()
	if current, read := s.file.Current(); !read || current.sameContent(found) {
		delay = 0
	}
	if wait := s.file.Wait(found, delay, now); wait > 0 {
		return false, wait
	}
	if s.file.Is(found) && s.assessment.ValidAt(now) {
		return !s.Loaded() && s.useLastGood(now), s.untilReassessment(now)
	}
	s.accept(bundle, err, found, now)
	return true, s.untilReassessment(now)
}

// unchanged reports whether the file has been read and its stamp is the same. Files
// that could not be read are retried, also before anything is in force.
func (s *Source) unchanged(mark fileStamp) bool {
	current, read := s.file.Current()
	return s.Loaded() && read && !current.unreadable && !s.file.Pending() && mark == s.stamp
}

func (c content) sameContent(d content) bool { return c.sum == d.sum && c.absent == d.absent }

func (c content) requiredDelay() time.Duration {
	if c.absent || c.rejected {
		return settled.RejectedDelay
	}
	return settled.ChangeDelay
}

// untilReassessment returns how long the assessment is valid; 0 means unlimited.
func (s *Source) untilReassessment(now time.Time) time.Duration {
	if s.assessment.Until.IsZero() {
		return 0
	}
	return max(time.Millisecond, s.assessment.Until.Sub(now))
}

// currentStamp returns the stamp of the file, the zero value if the file does not
// exist.
func (s *Source) currentStamp() fileStamp {
	info, err := os.Stat(s.path)
	if err != nil {
		return fileStamp{}
	}
	raw, is := info.Sys().(*syscall.Stat_t)
	if !is {
		return fileStamp{}
	}
	return fileStamp{device: raw.Dev, inode: raw.Ino, size: raw.Size, changed: raw.Ctim, modified: raw.Mtim}
}

func (s *Source) read(now time.Time) (bundle Bundle, found content, rejected error) {
	text, err := textfile.Read(s.path, s.limit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Bundle{}, content{absent: true}, nil
	case errors.Is(err, textfile.ErrTooLong):
		err = fmt.Errorf("%s: %w", s.path, TooLarge(s.limit))
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w: the service does not run as root: make the file world-readable (chmod 0644)", err)
	case err == nil:
		found.sum = sha256.Sum256(text)
		if bundle, err = filter(text, s.limit, now); err != nil {
			err = fmt.Errorf("%s: %w", s.path, err)
		}
	}
	if err != nil {
		found.readError, found.rejected = err.Error(), true
		var rejection *Rejection
		found.unreadable = !errors.As(err, &rejection)
	}
	return bundle, found, err
}

// accept puts a good file into force. A rejected file leaves the last good one in force.
func (s *Source) accept(bundle Bundle, err error, found content, now time.Time) {
	roots := bundle.Roots
	bundle.Roots = nil
	s.file.Take(found, inForce{roots, s.path}, err)
	s.assessment = bundle
	switch {
	case err == nil && s.lastGood != (LastGoodCopy{}):
		s.pendingCopy = encodeCopy(s.path, roots)
		*s.lastGood.latest = s.pendingCopy
	case err != nil && !s.Loaded():
		s.useLastGood(now)
	}
}

// useLastGood puts the stored copy of an earlier run into force, and reports whether
// there was a good one.
func (s *Source) useLastGood(now time.Time) bool {
	origin, certificates, err := s.lastGood.load()
	if err != nil {
		return false
	}
	var bundle Bundle
	if len(certificates) > 0 { // otherwise there was no file
		if bundle, err = filter(certificates, maxCopy, now); err != nil {
			return false
		}
	}
	s.file.Restore(inForce{bundle.Roots, origin})
	return true
}

// UsesLastGood reports whether the certificates in force are not those of the current
// file.
func (s *Source) UsesLastGood() bool { return s.file.Stale() }

// UnsavedCopy returns what writes the copy of the last good CAs, or nil if the copy is up
// to date. It can be called in another goroutine, because an fsync can take seconds.
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
		return "nothing of " + origin
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
// rejected.
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
