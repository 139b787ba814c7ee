// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// settleTime is how long changed files must have had the same text before they
	// count: they may be written in place.
	settleTime = 250 * time.Millisecond
	// lossSettleTime is the same where a file is gone or empty, which undoes settings.
	lossSettleTime = 2 * time.Second
)

// Snapshot is what a Reader says about a MicroShift's configuration.
type Snapshot struct {
	Present bool // there is such a directory
	Config  Config
	Known   bool // Config is what some reading has found
	// Err is why the files are not taken as they stand; with Known, Config is the
	// last good one then.
	Err error
	// Changed are the files that are others than those that MicroShift has read when it
	// was started last. Config is what it has read then, as far as it was seen.
	ChangedSinceStart []string
	// RestoreErr is why what an earlier process has kept is not taken.
	RestoreErr error
	Watch      []string // where a change would be
	// RetryAfter is when to read again without a change being noticed; 0: no need.
	RetryAfter time.Duration
}

// UnitsDir is where systemd tells of the starts of units: a link for each that runs,
// which leads to another text after each start.
const UnitsDir = "/run/systemd/units"

// invocationLink is the name of MicroShift's (unit_export_invocation_id of systemd).
const invocationLink = "invocation:microshift.service"

// Reader remembers the last good configuration, so that a half-written file takes
// nothing away, nor does one that MicroShift reads at its next start only; a
// [Keeper] has it remember over its own process's end. It is not safe for concurrent
// use.
type Reader struct {
	dir        string
	link       string
	stateFile  StateFile
	restored   bool
	restoreErr error // why nothing was taken from keeper

	inForce            version
	known              bool
	provisional        bool     // good is of an earlier start, and those that this start has read are broken, or not settled
	invocation         string   // of MicroShift, in which good is in force; "" while systemd knows of none
	modifiedSinceStart []string // files of good that were written after that start: what it has read is not known
	readAtStart        *version // what that start has read, as it seems, while it is not settled
	nextStart          *version // what counts at the next start
	present            bool
	saved              savedVersion // what keeper has

	settledErr     error // of what was taken last
	settled        fingerprint
	unsettled      fingerprint
	unsettledSince time.Time
}

// version is what the files have said at some time.
type version struct {
	fingerprint

	stamps []fileDigest
	wire   rawConfig
	config Config
}

func (v version) paths() []string {
	out := make([]string, len(v.stamps))
	for i, s := range v.stamps {
		out[i] = s.Path
	}
	return out
}

// fingerprint is what a look has found, in short.
type fingerprint struct {
	sum           [sha256.Size]byte
	nonEmptyFiles int // that have a text
}

// NewReader returns a Reader of the configuration in dir; units is where systemd tells
// of MicroShift's starts. It does not read yet.
func NewReader(dir, units string, keeper StateFile) *Reader {
	return &Reader{dir: dir, link: filepath.Join(units, invocationLink), stateFile: keeper}
}

// Read reads the files anew; now is from one monotonic clock. What the first look
// finds counts at once, but where MicroShift still runs that an earlier process has
// seen.
func (r *Reader) Read(now time.Time) Snapshot {
	start, _ := os.Readlink(r.link) // before the files: what is written later waits
	files, watch, err := readFiles(r.dir)
	if !r.restored {
		r.restored = true
		r.restore(start)
	}
	found := fingerprintOf(files, err)
	started := r.observeInvocation(start, found)
	r.present = Present(r.dir)
	wait := time.Duration(0)
	switch {
	case r.settled == found:
		r.unsettled = fingerprint{}
	case r.settled != (fingerprint{}):
		if r.unsettled != found {
			r.unsettled, r.unsettledSince = found, now
		}
		need := settleTime
		if found.nonEmptyFiles < r.settled.nonEmptyFiles {
			need = lossSettleTime
		}
		wait = max(0, need-now.Sub(r.unsettledSince))
	}
	switch {
	case wait > 0 && started:
		r.recordAtStart(found, files, watch, err)
	case wait == 0 && (r.settled != found || r.provisional && r.settledErr == nil):
		r.accept(found, files, watch, err)
	}
	return Snapshot{
		Present: r.present, Config: r.inForce.config, Known: r.known, Err: r.settledErr, ChangedSinceStart: r.changedFiles(), RestoreErr: r.restoreErr,
		Watch: append(watch, r.link), RetryAfter: wait,
	}
}

// changedFiles names the files that are not in force, if they are good ones.
func (r *Reader) changedFiles() []string {
	if r.nextStart != nil {
		return changedPaths(r.inForce.stamps, r.nextStart.stamps)
	}
	return r.modifiedSinceStart
}

// observeInvocation puts into force what MicroShift has read as it was started anew, or will
// read, where it does not run, and reports whether it was started. Files that are
// broken, or not settled, when a start is seen may be what it has read: the first good
// ones are, then, and what was in force stands in for them.
func (r *Reader) observeInvocation(start string, found fingerprint) (started bool) {
	if start == r.invocation {
		return false
	}
	r.invocation, r.modifiedSinceStart, r.readAtStart = start, nil, nil
	if r.nextStart != nil {
		r.inForce, r.nextStart = *r.nextStart, nil
	}
	if start != "" && (r.settled != found || r.settledErr != nil) {
		r.provisional = true
	}
	return start != ""
}

// recordAtStart remembers files that are not settled when a start is seen, but were there before
// it: if they are good, they are what MicroShift has read, even if others follow at once.
func (r *Reader) recordAtStart(found fingerprint, files []file, watch []string, err error) {
	v, err := newVersion(found, files, err)
	if err == nil && r.unchangedSinceStart(filePaths(files), watch) {
		r.readAtStart = &v
	}
}

// modifiedAfterStart names the files that were written after MicroShift was started. The
// kernel's clock for both goes by some milliseconds, in which MicroShift does not come
// to read them.
func (r *Reader) modifiedAfterStart(files []file) []string {
	link, err := os.Lstat(r.link)
	if err != nil {
		return nil
	}
	var newer []string
	for _, f := range files {
		if info, err := os.Stat(f.path); err == nil && info.ModTime().After(link.ModTime()) {
			newer = append(newer, f.path)
		}
	}
	return newer
}

// unchangedSinceStart reports whether none of the files was written, moved there or taken away
// after MicroShift was started: the time of an inode's change, which nobody can set,
// tells of the former two, and that of its directory of the latter.
func (r *Reader) unchangedSinceStart(files, watch []string) bool {
	link, err := os.Lstat(r.link)
	if err != nil {
		return false
	}
	for _, path := range slices.Concat([]string{r.dir}, watch, files) {
		var s unix.Stat_t
		err := unix.Stat(path, &s)
		if err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && time.Unix(s.Ctim.Unix()).After(link.ModTime()) {
			return false
		}
	}
	return true
}

// accept takes files that are settled; watch is where others would be.
func (r *Reader) accept(found fingerprint, files []file, watch []string, err error) {
	r.settled, r.unsettled = found, fingerprint{}
	v, err := newVersion(found, files, err)
	r.settledErr, r.nextStart = err, nil
	// Files that cannot be read have no paths here, but those that were seen may be they.
	if r.readAtStart != nil && !r.unchangedSinceStart(append(filePaths(files), r.readAtStart.paths()...), watch) {
		r.inForce, r.known, r.provisional = *r.readAtStart, true, false
	}
	r.readAtStart = nil
	afresh := !r.known || r.provisional
	switch {
	case err != nil:
	case !afresh && r.invocation != "" && found != r.inForce.fingerprint:
		r.nextStart = &v
	default:
		if afresh {
			r.modifiedSinceStart = r.modifiedAfterStart(files)
		}
		r.inForce, r.known, r.provisional = v, true, false
	}
}

// newVersion is what files say; err is that of their reading.
func newVersion(found fingerprint, files []file, err error) (version, error) {
	v := version{fingerprint: found, stamps: fileDigests(files)}
	if err == nil {
		v.wire, v.config, err = parseRaw(files)
	}
	return v, err
}

func fingerprintOf(files []file, err error) fingerprint {
	h := sha256.New()
	part := func(text []byte) {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(text)))
		h.Write(length[:])
		h.Write(text)
	}
	var r fingerprint
	for _, f := range files {
		part([]byte(f.path))
		part(f.text)
		if len(f.text) > 0 {
			r.nonEmptyFiles++
		}
	}
	if err != nil {
		part([]byte(err.Error()))
	}
	h.Sum(r.sum[:0])
	return r
}
