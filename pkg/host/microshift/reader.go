// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/settled"
)

// settleTime is how long changed files must keep the same content before they take effect. It is
// longer than settled.ChangeDelay because several files may be written one after another.
const settleTime = 500 * time.Millisecond

// Snapshot is MicroShift's configuration, as Reader returns it.
type Snapshot struct {
	Present bool // the configuration directory exists
	Config  Config
	Known   bool // Config is a configuration that was read
	// Err is why the files cannot be used. With Known, Config is the last good configuration.
	Err error
	// Newer names the files that were written after the running MicroShift was started. It
	// reads them at its next start.
	Newer []string
	Watch []string // paths to watch for changes
	// RetryAfter is when to read again even if no change is noticed. 0 means that no retry is
	// needed.
	RetryAfter time.Duration
}

// UnitsDir is the directory in which systemd keeps a link for each running unit. Each start of the
// unit creates the link again.
const UnitsDir = "/run/systemd/units"

// invocationLink is the name of MicroShift's link (unit_export_invocation_id of systemd).
const invocationLink = "invocation:microshift.service"

// Reader reads the configuration as it is now, and keeps the last good one, so that a partly
// written file removes nothing. It is not safe for concurrent use.
type Reader struct {
	dir   string
	link  string
	files settled.File[fingerprint, Config]
}

// fingerprint identifies the content of the files, or the error of reading them.
type fingerprint [sha256.Size]byte

// NewReader returns a Reader for the files in dir. unitsDir is the directory of systemd's links
// (UnitsDir). NewReader does not read yet.
func NewReader(dir, unitsDir string) *Reader {
	return &Reader{dir: dir, link: filepath.Join(unitsDir, invocationLink)}
}

// Read reads the files again. now is the current time of one monotonic clock. The first files take
// effect at once, and changed files when they settled.
func (r *Reader) Read(now time.Time) Snapshot {
	files, watch, err := readFiles(r.dir)
	found := fingerprintOf(files, err)
	delay := settleTime
	if _, known := r.files.Current(); !known {
		delay = 0
	}
	wait := r.files.Wait(found, delay, now)
	if wait == 0 && !r.files.Is(found) {
		var c Config
		if err == nil {
			c, err = parse(r.dir, files)
		}
		r.files.Take(found, c, err)
	}
	s := Snapshot{
		Present: Present(r.dir), Err: r.files.Err(), Newer: r.newerThanStart(files),
		Watch: append(watch, r.link), RetryAfter: wait,
	}
	s.Config, s.Known = r.files.Value()
	return s
}

// newerThanStart returns the files that were written after the running MicroShift was started, or
// the directory of the drop-ins if others were removed from it or moved into it.
func (r *Reader) newerThanStart(files []file) (newer []string) {
	link, err := os.Lstat(r.link)
	if err != nil {
		return nil // it does not run
	}
	isNewer := func(path string) bool {
		info, err := stat(path)
		return err == nil && info.ModTime().After(link.ModTime())
	}
	for _, f := range files {
		if isNewer(f.path) {
			newer = append(newer, f.path)
		}
	}
	if dir := DropInDir(r.dir); len(newer) == 0 && isNewer(dir) {
		newer = []string{dir}
	}
	return newer
}

func fingerprintOf(files []file, err error) fingerprint {
	h := sha256.New()
	for _, file := range files {
		fmt.Fprintf(h, "%d %s %d %s ", len(file.path), file.path, len(file.text), file.text)
	}
	fmt.Fprint(h, err)
	return fingerprint(h.Sum(nil))
}
