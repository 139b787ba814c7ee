// SPDX-License-Identifier: Apache-2.0

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

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// settleDelay is how long a changed file must have had the same text before it
	// counts: a file that is written in place is cut short for a moment, and a part
	// of a bundle is one, too.
	settleDelay = 100 * time.Millisecond
	// settleDelayRefused is the same for a file that is refused or gone: it may be amid
	// its replacement.
	settleDelayRefused = time.Second
)

// Source is one file of CAs, and what of it is in force. Its methods belong to one
// goroutine.
type Source struct {
	path     string
	limit    int
	lastGood LastGoodCopy // the zero value: no copy is kept

	// What was found last, and what of it counts.
	accepted   *content
	assessment Bundle // of the file, its Roots aside
	err        error  // why the file is refused

	roots        []Certificate // in force
	loaded       bool          // something is: a look has found a good file, or none
	usesLastGood bool          // what is in force is an earlier text's
	origin       string        // the path of what is in force

	stamp          fileStamp // of the file when it was read last
	unsettled      *content  // what the last look found, if that has not settled
	unsettledSince time.Time
	pendingCopy    []byte // the copy that is still to be written; not nil while there is one
}

// NewSource returns the source of an admin's bundle. A copy of the last good one is
// kept in kept, unless that is the zero value.
func NewSource(path string, kept LastGoodCopy) *Source {
	return &Source{path: path, limit: MaxBundle, lastGood: kept}
}

// newSystemSource is that of a host's own file.
func newSystemSource(path string) *Source { return &Source{path: path, limit: MaxSystem} }

// Path is where the file is.
func (s *Source) Path() string { return s.path }

// Origin is where the file is, or was, whose certificates are in force: after a
// restart with another path it may be the former one's.
func (s *Source) Origin() string { return cmp.Or(s.origin, s.path) }

// Roots are the certificates in force, the last good ones while the file is refused.
// Nobody changes them.
func (s *Source) Roots() []Certificate { return s.roots }

// Err is why the file is refused, or nil.
func (s *Source) Err() error { return s.err }

// Assessment is that on the file as it is now, without the certificates.
func (s *Source) Assessment() Bundle { return s.assessment }

// Absent holds where no file is the last that counts: there is none, or there was
// none before one that is refused.
func (s *Source) Absent() bool { return s.loaded && len(s.roots) == 0 }

// Loaded reports whether anything is in force: certificates, or that there is no file.
func (s *Source) Loaded() bool { return s.loaded }

// content is what a look at the file found.
type content struct {
	sum        [sha256.Size]byte
	absent     bool
	readError  string // the read error
	refused    bool
	unreadable bool // for want of permission, or because the disk fails
}

// fileStamp changes with the file, as a rule.
type fileStamp struct {
	device, inode     uint64
	size              int64
	changed, modified syscall.Timespec
}

// Refresh reads the file, takes what has settled, and reports whether there is a new
// verdict. again is when to look again, if that is to be soon. Without a hint that
// the file may have changed, it is read only if it looks so.
func (s *Source) Refresh(now time.Time, hinted bool) (changed bool, again time.Duration) {
	mark := s.currentStamp()
	if !hinted && s.unchanged(mark) && s.assessment.ValidAt(now) {
		return false, s.untilReassessment(now)
	}
	bundle, found, err := s.read(now)
	s.stamp = mark
	if s.accepted != nil && *s.accepted == found && s.assessment.ValidAt(now) {
		s.unsettled = nil
		if !s.loaded && s.useLastGood(now) {
			return true, s.untilReassessment(now)
		}
		return false, s.untilReassessment(now)
	}
	if s.accepted != nil && !s.accepted.sameContent(found) {
		if s.unsettled == nil || *s.unsettled != found {
			s.unsettled, s.unsettledSince = &found, now
		}
		if wait := found.requiredDelay() - now.Sub(s.unsettledSince); wait > 0 {
			return false, wait
		}
	}
	s.accept(bundle, err, found, now)
	return true, s.untilReassessment(now)
}

// unchanged reports whether the file has been read, and looks now as it did then. What
// could not be read is tried again and again, and so is a start without anything in
// force.
func (s *Source) unchanged(mark fileStamp) bool {
	return s.loaded && s.accepted != nil && !s.accepted.unreadable && s.unsettled == nil && mark == s.stamp
}

func (c content) sameContent(d content) bool { return c.sum == d.sum && c.absent == d.absent }

func (c content) requiredDelay() time.Duration {
	if c.absent || c.refused {
		return settleDelayRefused
	}
	return settleDelay
}

// untilReassessment is how long the verdict holds, where that is not for long.
func (s *Source) untilReassessment(now time.Time) time.Duration {
	if s.assessment.Until.IsZero() {
		return 0
	}
	return max(time.Millisecond, s.assessment.Until.Sub(now))
}

// currentStamp takes the file's stamp; that of an absent one is the zero value.
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

// read reads and judges.
func (s *Source) read(now time.Time) (bundle Bundle, found content, refused error) {
	text, err := textfile.Read(s.path, s.limit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Bundle{}, content{absent: true}, nil
	case errors.Is(err, textfile.ErrTooLong):
		err = fmt.Errorf("%s: %w", s.path, TooLarge(s.limit))
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w: the service is not root: make it world-readable (chmod 0644)", err)
	case err == nil:
		found.sum = sha256.Sum256(text)
		if bundle, err = filter(text, s.limit, now); err != nil {
			err = fmt.Errorf("%s: %w", s.path, err)
		}
	}
	if err != nil {
		found.readError, found.refused = err.Error(), true
		var judged *Refusal
		found.unreadable = !errors.As(err, &judged)
	}
	return bundle, found, err
}

// accept puts a good text into force. With one that is refused the last good one stays.
func (s *Source) accept(bundle Bundle, err error, found content, now time.Time) {
	roots := bundle.Roots
	bundle.Roots = nil
	s.accepted, s.assessment, s.err, s.unsettled = &found, bundle, err, nil
	if err == nil {
		s.roots, s.loaded, s.usesLastGood, s.origin = roots, true, false, s.path
		if s.lastGood != (LastGoodCopy{}) {
			s.pendingCopy = encodeCopy(s.path, roots)
		}
		return
	}
	s.usesLastGood = s.loaded
	if !s.loaded {
		s.useLastGood(now)
	}
}

// useLastGood takes what an earlier run has kept, and reports whether there was any
// that is good.
func (s *Source) useLastGood(now time.Time) bool {
	origin, certificates, err := s.lastGood.load()
	if err != nil {
		return false
	}
	var bundle Bundle
	if len(certificates) > 0 { // or it had no file
		if bundle, err = filter(certificates, maxCopy, now); err != nil {
			return false
		}
	}
	s.roots, s.loaded, s.usesLastGood, s.origin = bundle.Roots, true, true, origin
	return true
}

// UsesLastGood holds while what is in force is not of the file as it is.
func (s *Source) UsesLastGood() bool { return s.usesLastGood }

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

// Describe tells in a line which certificates these are, for diagnoses.
func Describe(whose string, roots []Certificate) string {
	whose = report.OneLine(whose)
	names := make([]string, 0, maxDescribedNames+1)
	for _, c := range roots[:min(maxDescribedNames, len(roots))] {
		names = append(names, strconv.Quote(printable(c.Subject, maxDescribedSubject)))
	}
	if len(roots) > maxDescribedNames {
		names = append(names, "…")
	}
	switch len(roots) {
	case 0:
		return "nothing of " + whose
	case 1:
		return fmt.Sprintf("the CA of %s (%s)", whose, names[0])
	default:
		return fmt.Sprintf("the %d CAs of %s (%s)", len(roots), whose, strings.Join(names, ", "))
	}
}

// DER are the certificates as they are handed over.
func DER(roots []Certificate) [][]byte {
	all := make([][]byte, len(roots))
	for i, c := range roots {
		all[i] = c.DER
	}
	return all
}

// NewCABundle returns the value that tells other processes to trust these roots. owner
// is their source, for findings.
func NewCABundle(owner string, roots []Certificate) *ingress.CABundle {
	return &ingress.CABundle{Roots: DER(roots), Description: Describe(owner, roots)}
}
