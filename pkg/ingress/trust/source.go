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
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// settled is how long a changed file must have had the same text before it
	// counts: a file that is written in place is cut short for a moment, and a part
	// of a bundle is one, too.
	settled = 100 * time.Millisecond
	// settledDoubt is the same for a file that is refused or gone: it may be amid
	// its replacement.
	settledDoubt = time.Second
)

// Source is one file of CAs, and what of it is in force. Its methods belong to one
// goroutine.
type Source struct {
	path  string
	limit int
	kept  Kept // the zero value: no copy is kept

	// What was found last, and what of it counts.
	taken   *content
	verdict Bundle // of the file, its Roots aside
	err     error  // why the file is refused

	roots     []Certificate // in force
	known     bool          // something is: a look has found a good file, or none
	remembers bool          // what is in force is an earlier text's
	origin    string        // the path of what is in force

	stamp stamp    // of the file when it was read last
	doubt *content // what the last look found, if that has not settled
	since time.Time
	save  []byte // the copy that is still to be written; not nil while there is one
}

// NewSource returns the source of an admin's bundle. A copy of the last good one is
// kept in kept, unless that is the zero value.
func NewSource(path string, kept Kept) *Source {
	return &Source{path: path, limit: MaxBundle, kept: kept}
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

// Verdict is that on the file as it is now, without the certificates.
func (s *Source) Verdict() Bundle { return s.verdict }

// Absent holds where no file is the last that counts: there is none, or there was
// none before one that is refused.
func (s *Source) Absent() bool { return s.known && len(s.roots) == 0 }

// Known reports whether anything is in force: certificates, or that there is no file.
func (s *Source) Known() bool { return s.known }

// content is what a look at the file found.
type content struct {
	sum     [sha256.Size]byte
	absent  bool
	fail    string // the read error
	refused bool
	unread  bool // for want of permission, or because the disk fails
}

// stamp changes with the file, as a rule.
type stamp struct {
	device, inode  uint64
	size           int64
	changed, wrote syscall.Timespec
}

// Look reads the file, takes what has settled, and reports whether there is a new
// verdict. again is when to look again, if that is to be soon. Without a hint that
// the file may have changed, it is read only if it looks so.
func (s *Source) Look(now time.Time, hinted bool) (changed bool, again time.Duration) {
	mark := s.look()
	if !hinted && s.settledAt(mark) && s.verdict.Holds(now) {
		return false, s.untilTurn(now)
	}
	bundle, found, err := s.read(now)
	s.stamp = mark
	if s.taken != nil && *s.taken == found && s.verdict.Holds(now) {
		s.doubt = nil
		if !s.known && s.fallBack(now) {
			return true, s.untilTurn(now)
		}
		return false, s.untilTurn(now)
	}
	if s.taken != nil && !s.taken.sameText(found) {
		if s.doubt == nil || *s.doubt != found {
			s.doubt, s.since = &found, now
		}
		if wait := found.settles() - now.Sub(s.since); wait > 0 {
			return false, wait
		}
	}
	s.take(bundle, err, found, now)
	return true, s.untilTurn(now)
}

// settledAt reports whether the file has been read, and looks now as it did then. What
// could not be read is tried again and again, and so is a start without anything in
// force.
func (s *Source) settledAt(mark stamp) bool {
	return s.known && s.taken != nil && !s.taken.unread && s.doubt == nil && mark == s.stamp
}

func (c content) sameText(d content) bool { return c.sum == d.sum && c.absent == d.absent }

func (c content) settles() time.Duration {
	if c.absent || c.refused {
		return settledDoubt
	}
	return settled
}

// untilTurn is how long the verdict holds, where that is not for long.
func (s *Source) untilTurn(now time.Time) time.Duration {
	if s.verdict.Until.IsZero() {
		return 0
	}
	return max(time.Millisecond, s.verdict.Until.Sub(now))
}

// look takes the file's stamp; that of an absent one is the zero value.
func (s *Source) look() stamp {
	info, err := os.Stat(s.path)
	if err != nil {
		return stamp{}
	}
	raw, is := info.Sys().(*syscall.Stat_t)
	if !is {
		return stamp{}
	}
	return stamp{device: raw.Dev, inode: raw.Ino, size: raw.Size, changed: raw.Ctim, wrote: raw.Mtim}
}

// read reads and judges.
func (s *Source) read(now time.Time) (bundle Bundle, found content, refused error) {
	text, err := textfile.Read(s.path, s.limit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Bundle{}, content{absent: true}, nil
	case errors.Is(err, textfile.ErrTooLong):
		err = fmt.Errorf("%s: %w", s.path, TooLong(s.limit))
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w: the service is not root: make it world-readable (chmod 0644)", err)
	case err == nil:
		found.sum = sha256.Sum256(text)
		if bundle, err = filter(text, s.limit, now); err != nil {
			err = fmt.Errorf("%s: %w", s.path, err)
		}
	}
	if err != nil {
		found.fail, found.refused = err.Error(), true
		var judged *Refusal
		found.unread = !errors.As(err, &judged)
	}
	return bundle, found, err
}

// take puts a good text into force. With one that is refused the last good one stays.
func (s *Source) take(bundle Bundle, err error, found content, now time.Time) {
	roots := bundle.Roots
	bundle.Roots = nil
	s.taken, s.verdict, s.err, s.doubt = &found, bundle, err, nil
	if err == nil {
		s.roots, s.known, s.remembers, s.origin = roots, true, false, s.path
		if s.kept != (Kept{}) {
			s.save = copyOf(s.path, roots)
		}
		return
	}
	s.remembers = s.known
	if !s.known {
		s.fallBack(now)
	}
}

// fallBack takes what an earlier run has kept, and reports whether there was any
// that is good.
func (s *Source) fallBack(now time.Time) bool {
	origin, certificates, err := s.kept.load()
	if err != nil {
		return false
	}
	var bundle Bundle
	if len(certificates) > 0 { // or it had no file
		if bundle, err = filter(certificates, maxKept, now); err != nil {
			return false
		}
	}
	s.roots, s.known, s.remembers, s.origin = bundle.Roots, true, true, origin
	return true
}

// Remembers holds while what is in force is not of the file as it is.
func (s *Source) Remembers() bool { return s.remembers }

// Keep writes the copy of what was taken last, if that is due. It takes the disk's
// time, so it comes after everything else.
func (s *Source) Keep() error {
	text := s.save
	if text == nil {
		return nil
	}
	s.save = nil
	return s.kept.save(text)
}

// aboutNamed is how many CAs a diagnosis names, and how much of each name.
const (
	aboutNamed   = 3
	aboutSubject = 80
)

// About tells in a line which certificates these are, for diagnoses.
func About(whose string, roots []Certificate) string {
	whose = report.OneLine(whose)
	names := make([]string, 0, aboutNamed+1)
	for _, c := range roots[:min(aboutNamed, len(roots))] {
		names = append(names, strconv.Quote(printable(c.Subject, aboutSubject)))
	}
	if len(roots) > aboutNamed {
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
