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
	// settled is how long changed files must have had the same text before they
	// count: they may be written in place.
	settled = 250 * time.Millisecond
	// settledLoss is the same where a file is gone or empty, which undoes settings.
	settledLoss = 2 * time.Second
)

// Answer is what a Reader says about a MicroShift's configuration.
type Answer struct {
	Present bool // there is such a directory
	Config  Config
	Known   bool // Config is what some reading has found
	// Err is why the files are not taken as they stand; with Known, Config is the
	// last good one then.
	Err error
	// Changed are the files that are others than those that MicroShift has read when it
	// was started last. Config is what it has read then, as far as it was seen.
	Changed []string
	// KeepErr is why what an earlier process has kept is not taken.
	KeepErr error
	Watch   []string // where a change would be
	// RetryAfter is when to read again without a change being noticed; 0: no need.
	RetryAfter time.Duration
}

// Units is where systemd tells of the starts of units: a link for each that runs,
// which leads to another text after each start.
const Units = "/run/systemd/units"

// unitLink is the name of MicroShift's (unit_export_invocation_id of systemd).
const unitLink = "invocation:microshift.service"

// Reader remembers the last good configuration, so that a half-written file takes
// nothing away, nor does one that MicroShift reads at its next start only; a
// [Keeper] has it remember over its own process's end. It is not safe for concurrent
// use.
type Reader struct {
	dir    string
	link   string
	keeper Keeper
	begun  bool
	keeps  error // why nothing was taken from keeper

	good    version
	known   bool
	standIn bool     // good is of an earlier start, and those that this start has read are broken, or not settled
	start   string   // of MicroShift, in which good is in force; "" while systemd knows of none
	newer   []string // files of good that were written after that start: what it has read is not known
	seen    *version // what that start has read, as it seems, while it is not settled
	next    *version // what counts at the next start
	present bool
	saved   mark // what keeper has

	err   error // of what was taken last
	taken reading
	doubt reading
	since time.Time
}

// version is what the files have said at some time.
type version struct {
	reading

	stamps []stamp
	wire   wire
	config Config
}

func (v version) paths() []string {
	out := make([]string, len(v.stamps))
	for i, s := range v.stamps {
		out[i] = s.Path
	}
	return out
}

// reading is what a look has found, in short.
type reading struct {
	sum   [sha256.Size]byte
	files int // that have a text
}

// NewReader returns a Reader of the configuration in dir; units is where systemd tells
// of MicroShift's starts. It does not read yet.
func NewReader(dir, units string, keeper Keeper) *Reader {
	return &Reader{dir: dir, link: filepath.Join(units, unitLink), keeper: keeper}
}

// Read reads the files anew; now is from one monotonic clock. What the first look
// finds counts at once, but where MicroShift still runs that an earlier process has
// seen.
func (r *Reader) Read(now time.Time) Answer {
	start, _ := os.Readlink(r.link) // before the files: what is written later waits
	files, watch, err := readFiles(r.dir)
	if !r.begun {
		r.begun = true
		r.restore(start)
	}
	found := sum(files, err)
	started := r.follow(start, found)
	r.present = Present(r.dir)
	wait := time.Duration(0)
	switch {
	case r.taken == found:
		r.doubt = reading{}
	case r.taken != (reading{}):
		if r.doubt != found {
			r.doubt, r.since = found, now
		}
		need := settled
		if found.files < r.taken.files {
			need = settledLoss
		}
		wait = max(0, need-now.Sub(r.since))
	}
	switch {
	case wait > 0 && started:
		r.see(found, files, watch, err)
	case wait == 0 && (r.taken != found || r.standIn && r.err == nil):
		r.take(found, files, watch, err)
	}
	return Answer{
		Present: r.present, Config: r.good.config, Known: r.known, Err: r.err, Changed: r.changed(), KeepErr: r.keeps,
		Watch: append(watch, r.link), RetryAfter: wait,
	}
}

// changed names the files that are not in force, if they are good ones.
func (r *Reader) changed() []string {
	if r.next != nil {
		return differing(r.good.stamps, r.next.stamps)
	}
	return r.newer
}

// follow puts into force what MicroShift has read as it was started anew, or will
// read, where it does not run, and reports whether it was started. Files that are
// broken, or not settled, when a start is seen may be what it has read: the first good
// ones are, then, and what was in force stands in for them.
func (r *Reader) follow(start string, found reading) (started bool) {
	if start == r.start {
		return false
	}
	r.start, r.newer, r.seen = start, nil, nil
	if r.next != nil {
		r.good, r.next = *r.next, nil
	}
	if start != "" && (r.taken != found || r.err != nil) {
		r.standIn = true
	}
	return start != ""
}

// see remembers files that are not settled when a start is seen, but were there before
// it: if they are good, they are what MicroShift has read, even if others follow at once.
func (r *Reader) see(found reading, files []file, watch []string, err error) {
	v, err := judged(found, files, err)
	if err == nil && r.untouched(paths(files), watch) {
		r.seen = &v
	}
}

// writtenSince names the files that were written after MicroShift was started. The
// kernel's clock for both goes by some milliseconds, in which MicroShift does not come
// to read them.
func (r *Reader) writtenSince(files []file) []string {
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

// untouched reports whether none of the files was written, moved there or taken away
// after MicroShift was started: the time of an inode's change, which nobody can set,
// tells of the former two, and that of its directory of the latter.
func (r *Reader) untouched(files, watch []string) bool {
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

// take takes files that are settled; watch is where others would be.
func (r *Reader) take(found reading, files []file, watch []string, err error) {
	r.taken, r.doubt = found, reading{}
	v, err := judged(found, files, err)
	r.err, r.next = err, nil
	// Files that cannot be read have no paths here, but those that were seen may be they.
	if r.seen != nil && !r.untouched(append(paths(files), r.seen.paths()...), watch) {
		r.good, r.known, r.standIn = *r.seen, true, false
	}
	r.seen = nil
	afresh := !r.known || r.standIn
	switch {
	case err != nil:
	case !afresh && r.start != "" && found != r.good.reading:
		r.next = &v
	default:
		if afresh {
			r.newer = r.writtenSince(files)
		}
		r.good, r.known, r.standIn = v, true, false
	}
}

// judged is what files say; err is that of their reading.
func judged(found reading, files []file, err error) (version, error) {
	v := version{reading: found, stamps: stamps(files)}
	if err == nil {
		v.wire, v.config, err = understand(files)
	}
	return v, err
}

func sum(files []file, err error) reading {
	h := sha256.New()
	part := func(text []byte) {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(text)))
		h.Write(length[:])
		h.Write(text)
	}
	var r reading
	for _, f := range files {
		part([]byte(f.path))
		part(f.text)
		if len(f.text) > 0 {
			r.files++
		}
	}
	if err != nil {
		part([]byte(err.Error()))
	}
	h.Sum(r.sum[:0])
	return r
}
