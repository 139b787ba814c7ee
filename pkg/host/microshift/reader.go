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

	"github.com/http01-proxyd/http01-proxyd/internal/settled"
)

// settleTime is how long changed files must keep the same content before they take effect. It is
// longer than settled.ChangeDelay because several files may be written one after another.
const settleTime = 250 * time.Millisecond

// Snapshot is MicroShift's configuration in force, as Reader returns it.
type Snapshot struct {
	Present bool // the configuration directory exists
	Config  Config
	Known   bool // Config is a configuration that was read
	// Err is why the files cannot be used. With Known, Config is the last good configuration.
	Err error
	// ChangedSinceStart names the files that differ from those that MicroShift read at its last
	// start. Config is what it read then, as far as this is known.
	ChangedSinceStart []string
	// RestoreErr is why the state that an earlier process saved is not used.
	RestoreErr error
	Watch      []string // paths to watch for changes
	// RetryAfter is when to read again even if no change is noticed. 0 means that no retry is
	// needed.
	RetryAfter time.Duration
}

// UnitsDir is the directory in which systemd keeps a link for each running unit. The target of the
// link changes with each start of the unit.
const UnitsDir = "/run/systemd/units"

// invocationLink is the name of MicroShift's link (unit_export_invocation_id of systemd).
const invocationLink = "invocation:microshift.service"

// Reader determines which configuration the running MicroShift has read. It keeps the last good one,
// so that a partly written file removes nothing, and a changed file takes effect only at MicroShift's
// next start. A [StateFile] preserves this over restarts of this service. Reader is not safe for
// concurrent use.
type Reader struct {
	dir        string
	link       string
	stateFile  StateFile
	restored   bool
	restoreErr error
	present    bool

	files      settled.Content[fingerprint]
	settledErr error // of the files that settled last

	phase      phase
	invocation string   // of microshift.service; "" while it does not run
	inForce    version  // set in all phases except unknown
	next       version  // set in phase outdated
	candidate  *version // what the present start has probably read; set only while its files settle
	modified   []string // files of inForce that were modified after the start: MicroShift may have read older content

	saved savedVersion // that the last function of Unsaved writes
}

// version is the content of the files at one time.
type version struct {
	fingerprint

	digests []fileDigest
	raw     rawConfig
	config  Config
}

func (v version) paths() []string {
	out := make([]string, len(v.digests))
	for i, d := range v.digests {
		out[i] = d.Path
	}
	return out
}

// fingerprint identifies the content of the files, or the error of reading them.
type fingerprint struct {
	sum           [sha256.Size]byte
	nonEmptyFiles int
}

// NewReader returns a Reader of the configuration in dir. units is the directory of the invocation
// links (UnitsDir). NewReader does not read yet.
func NewReader(dir, units string, stateFile StateFile) *Reader {
	return &Reader{dir: dir, link: filepath.Join(units, invocationLink), stateFile: stateFile}
}

// Read reads the files again. now is the current time of one monotonic clock. The files of the first
// Read take effect at once, unless an earlier process has saved what the running MicroShift has read.
func (r *Reader) Read(now time.Time) Snapshot {
	invocation, _ := os.Readlink(r.link) // before the files: later changes wait for the next start
	files, watch, err := readFiles(r.dir)
	if !r.restored {
		r.restored = true
		r.restore(invocation)
	}
	found := fingerprintOf(files, err)
	started := r.observeInvocation(invocation, found)
	r.present = Present(r.dir)
	wait := r.wait(found, now)
	switch {
	case wait > 0 && started:
		r.recordCandidate(found, files, watch, err)
	case wait == 0 && (!r.files.Is(found) || r.phase == provisional && r.settledErr == nil):
		r.accept(found, files, watch, err)
	}
	return Snapshot{
		Present: r.present, Config: r.inForce.config, Known: r.phase != unknown, Err: r.settledErr,
		ChangedSinceStart: r.changedFiles(), RestoreErr: r.restoreErr, Watch: append(watch, r.link), RetryAfter: wait,
	}
}

// wait returns how long the files must still stay unchanged. The first files take effect at once.
func (r *Reader) wait(found fingerprint, now time.Time) time.Duration {
	before, known := r.files.Current()
	delay := settleTime
	switch {
	case !known:
		delay = 0
	case found.nonEmptyFiles < before.nonEmptyFiles:
		delay = settled.LossDelay
	}
	return r.files.Wait(found, delay, now)
}

// changedFiles names the files that take effect at MicroShift's next start.
func (r *Reader) changedFiles() []string {
	if r.phase == outdated {
		return changedPaths(r.inForce.digests, r.next.digests)
	}
	return r.modified
}

// observeInvocation handles a start or stop of MicroShift and reports whether it was started. Files
// that are changing or invalid at that time may be what MicroShift has read.
func (r *Reader) observeInvocation(invocation string, found fingerprint) (started bool) {
	if invocation == r.invocation {
		return false
	}
	r.invocation, r.modified, r.candidate = invocation, nil, nil
	switch {
	case invocation == "":
		r.apply(stopped, version{})
	case r.files.Is(found) && r.settledErr == nil:
		r.apply(startedSettled, version{})
	default:
		r.apply(startedUnsettled, version{})
	}
	return invocation != ""
}

// recordCandidate records valid files that have not settled when MicroShift is started, but were not
// changed after the start. MicroShift has read them, even if they are changed again at once.
func (r *Reader) recordCandidate(found fingerprint, files []file, watch []string, err error) {
	v, err := newVersion(found, files, err)
	if err == nil && r.unchangedSinceStart(filePaths(files), watch) {
		r.candidate = &v
	}
}

// accept handles files that have settled. watch lists the paths where others can appear.
func (r *Reader) accept(found fingerprint, files []file, watch []string, err error) {
	r.files.Accept(found)
	v, err := newVersion(found, files, err)
	r.settledErr = err
	// Files that cannot be read are not in filePaths, but they may be those of the candidate.
	if r.candidate != nil && !r.unchangedSinceStart(append(filePaths(files), r.candidate.paths()...), watch) {
		r.apply(candidateConfirmed, *r.candidate)
	}
	r.candidate = nil
	switch {
	case err != nil:
		r.apply(settledInvalid, version{})
	case r.invocation != "" && found != r.inForce.fingerprint:
		r.apply(settledAfterStart, v)
	default:
		r.apply(settledForStart, v)
	}
}

// apply performs the transition for an event. v is the version that the event is about.
func (r *Reader) apply(e event, v version) {
	t := transitions()[e][r.phase]
	switch t.do {
	case keepInForce:
	case adopt:
		r.inForce = v
	case adoptUncertain:
		r.inForce, r.modified = v, r.modifiedAfterStart(v.paths())
	case adoptNext:
		r.inForce = r.next
	case holdNext:
		r.next = v
	}
	if r.phase = t.to; r.phase != outdated {
		r.next = version{}
	}
}

// modifiedAfterStart returns the files that were modified after MicroShift was started. The kernel's
// clock for file times has a resolution of some milliseconds. MicroShift does not read its files that
// soon after its start.
func (r *Reader) modifiedAfterStart(paths []string) []string {
	link, err := os.Lstat(r.link)
	if err != nil {
		return nil
	}
	var modified []string
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(link.ModTime()) {
			modified = append(modified, path)
		}
	}
	return modified
}

// unchangedSinceStart reports whether no file was written, moved or deleted after MicroShift was
// started. Writing and moving a file set its inode change time, which no program can set. Deleting it
// sets that of its directory.
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

func newVersion(found fingerprint, files []file, err error) (version, error) {
	v := version{fingerprint: found, digests: fileDigests(files)}
	if err == nil {
		v.raw, v.config, err = parseRaw(files)
	}
	return v, err
}

func fingerprintOf(files []file, err error) fingerprint {
	h := sha256.New()
	add := func(text []byte) {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(text)))
		h.Write(length[:])
		h.Write(text)
	}
	var f fingerprint
	for _, file := range files {
		add([]byte(file.path))
		add(file.text)
		if len(file.text) > 0 {
			f.nonEmptyFiles++
		}
	}
	if err != nil {
		add([]byte(err.Error()))
	}
	h.Sum(f.sum[:0])
	return f
}
