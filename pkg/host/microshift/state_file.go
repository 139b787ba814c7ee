// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// maxStateBytes bounds what is kept: JSON writes some characters of a file with six.
const maxStateBytes = 6*maxBytes + maxFiles<<10

// StateFile keeps what is in force in the state directory, with the start of MicroShift
// that has read it: another process goes on with it until MicroShift is started anew,
// and goes on with it, too, where the files have become broken.
type StateFile struct{ path string }

// NewStateFile keeps it in dir, which is made when it is absent.
func NewStateFile(dir string) StateFile {
	return StateFile{filepath.Join(dir, "microshift-in-force.json")}
}

// savedState is how it is kept: what the files say, and not what follows from it, which
// another release may know better.
type savedState struct {
	Directory          string       `json:"directory"`
	Start              string       `json:"start"` // the invocation of microshift.service; empty: it did not run
	ModifiedSinceStart []string     `json:"newer,omitempty"`
	Sum                []byte       `json:"sum"`
	Texts              int          `json:"texts"`
	Files              []fileDigest `json:"files"`
	Configuration      rawConfig    `json:"configuration"`
}

// fileDigest tells a file's text from others.
type fileDigest struct {
	Path string `json:"path"`
	Sum  []byte `json:"sum"`
}

func fileDigests(files []file) []fileDigest {
	out := make([]fileDigest, len(files))
	for i, f := range files {
		sum := sha256.Sum256(f.text)
		out[i] = fileDigest{f.path, sum[:]}
	}
	return out
}

// changedPaths names the files that only one side has, or that differ.
func changedPaths(before, now []fileDigest) []string {
	var out []string
	for _, side := range [2][2][]fileDigest{{now, before}, {before, now}} {
		for _, s := range side[0] {
			same := func(o fileDigest) bool { return o.Path == s.Path && string(o.Sum) == string(s.Sum) }
			if !slices.ContainsFunc(side[1], same) && !slices.Contains(out, s.Path) {
				out = append(out, s.Path)
			}
		}
	}
	slices.Sort(out)
	return out
}

// ignoredHint is what becomes of a file that somebody else has written.
const ignoredHint = "it is passed over, and the next good configuration takes its place: there is nothing to do"

// load returns what was kept; without any the error is fs.ErrNotExist.
func (k StateFile) load() (savedState, Config, error) {
	text, err := textfile.Read(k.path, maxStateBytes)
	if err != nil {
		return savedState{}, Config{}, fmt.Errorf("read what was kept of MicroShift's configuration: %w", err)
	}
	var from savedState
	if err := json.Unmarshal(text, &from); err != nil || len(from.Sum) != sha256.Size {
		return savedState{}, Config{}, fmt.Errorf("%s is not what this service writes: %s", k.path, ignoredHint)
	}
	c, err := from.Configuration.validate()
	if err != nil {
		return savedState{}, Config{}, fmt.Errorf("%s has what is no configuration of MicroShift's, %w: %s", k.path, err, ignoredHint)
	}
	return from, c, nil
}

// InternalAddresses are the internal addresses that the kept configuration gives, which is
// without the default ones; nil where nothing was kept that can be read.
func (k StateFile) InternalAddresses() []netip.Addr {
	_, c, err := k.load()
	if err != nil {
		return nil
	}
	return c.configuredInternal()
}

// restore takes what an earlier process has kept: it is in force as long as the same
// MicroShift runs, and else stands in until there are good files.
func (r *Reader) restore(start string) {
	from, c, err := r.stateFile.load()
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.restoreErr = err
		}
		return
	}
	if from.Directory != r.dir {
		return
	}
	r.inForce = version{fingerprint{[sha256.Size]byte(from.Sum), from.Texts}, from.Files, from.Configuration, c}
	r.known, r.provisional = true, start == "" || from.Start != start
	if !r.provisional {
		r.invocation, r.modifiedSinceStart = start, from.ModifiedSinceStart
		r.saved = r.currentVersion()
	}
}

// currentVersion tells what is kept from what is to be.
type savedVersion struct {
	fingerprint

	start              string
	modifiedSinceStart int
}

func (r *Reader) currentVersion() savedVersion {
	return savedVersion{r.inForce.fingerprint, r.invocation, len(r.modifiedSinceStart)}
}

// Save keeps what is in force, if that has changed. What stands in for it is kept
// already, with the start that has read it and not with a later one, and what a host without MicroShift's directory comes to is no
// configuration of its.
func (r *Reader) Save() error {
	if write := r.Unsaved(); write != nil {
		return write()
	}
	return nil
}

// Unsaved returns what writes the state file, or nil if it is up to date. It can be called
// in another goroutine, because an fsync can take seconds.
func (r *Reader) Unsaved() (write func() error) {
	if !r.known || r.provisional || !r.present || r.saved == r.currentVersion() {
		return nil
	}
	r.saved = r.currentVersion()
	path := r.stateFile.path
	text, err := json.Marshal(savedState{r.dir, r.invocation, r.modifiedSinceStart, r.inForce.sum[:], r.inForce.nonEmptyFiles, r.inForce.stamps, r.inForce.wire})
	return func() error {
		if err == nil {
			err = textfile.Replace(path, text)
		}
		if err != nil {
			return fmt.Errorf("save MicroShift's configuration: %w", err)
		}
		return nil
	}
}
