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

// maxStateBytes limits the state file. JSON encodes some characters with six.
const maxStateBytes = 6*maxBytes + maxFiles<<10

// StateFile stores the configuration in force in the state directory, together with the start of
// MicroShift that has read it. The next process of this service uses it until MicroShift is started
// again. It also uses it if the files have become invalid.
type StateFile struct{ path string }

// NewStateFile returns the StateFile in dir, which is created when the file is written.
func NewStateFile(dir string) StateFile {
	return StateFile{filepath.Join(dir, "microshift-in-force.json")}
}

// savedState is the content of the state file. It contains the keys of MicroShift's files and not the
// values that are computed from them, which another release may compute differently.
type savedState struct {
	Directory          string       `json:"directory"`
	Start              string       `json:"start"` // invocation of microshift.service; empty: it did not run
	ModifiedSinceStart []string     `json:"modifiedSinceStart,omitempty"`
	Sum                []byte       `json:"sum"`
	NonEmptyFiles      int          `json:"nonEmptyFiles"`
	Files              []fileDigest `json:"files"`
	Configuration      rawConfig    `json:"configuration"`
}

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

func changedPaths(before, now []fileDigest) []string {
	var out []string
	for _, side := range [2][2][]fileDigest{{now, before}, {before, now}} {
		for _, d := range side[0] {
			same := func(o fileDigest) bool { return o.Path == d.Path && string(o.Sum) == string(d.Sum) }
			if !slices.ContainsFunc(side[1], same) && !slices.Contains(out, d.Path) {
				out = append(out, d.Path)
			}
		}
	}
	slices.Sort(out)
	return out
}

// ignoredHint is the remediation for a state file with foreign content.
const ignoredHint = "the file is ignored and will be replaced by the next valid configuration. No action is required"

// load reads the state. Without a file the error wraps fs.ErrNotExist.
func (f StateFile) load() (savedState, Config, error) {
	text, err := textfile.Read(f.path, maxStateBytes)
	if err != nil {
		return savedState{}, Config{}, fmt.Errorf("read the saved state of MicroShift's configuration: %w", err)
	}
	var saved savedState
	if err := json.Unmarshal(text, &saved); err != nil || len(saved.Sum) != sha256.Size {
		return savedState{}, Config{}, fmt.Errorf("%s was not written by this service: %s", f.path, ignoredHint)
	}
	c, err := saved.Configuration.validate()
	if err != nil {
		return savedState{}, Config{}, fmt.Errorf("%s contains no valid MicroShift configuration: %s: %w", f.path, ignoredHint, err)
	}
	return saved, c, nil
}

func (f StateFile) save(s savedState) error {
	text, err := json.Marshal(s)
	if err == nil {
		err = textfile.Replace(f.path, text)
	}
	if err != nil {
		return fmt.Errorf("save the state of MicroShift's configuration: %w", err)
	}
	return nil
}

// InternalAddresses returns the internal addresses that the saved configuration sets, without the
// default ones. It returns nil if no state can be read.
func (f StateFile) InternalAddresses() []netip.Addr {
	_, c, err := f.load()
	if err != nil {
		return nil
	}
	return c.configuredInternal()
}

// restore starts with the state that an earlier process has saved. It is current while the same
// MicroShift runs, and provisional otherwise.
func (r *Reader) restore(invocation string) {
	saved, c, err := r.stateFile.load()
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.restoreErr = err
		}
		return
	}
	if saved.Directory != r.dir {
		return
	}
	r.inForce = version{fingerprint{[sha256.Size]byte(saved.Sum), saved.NonEmptyFiles}, saved.Files, saved.Configuration, c}
	r.phase = provisional
	if invocation != "" && saved.Start == invocation {
		r.phase, r.invocation, r.modified = current, invocation, saved.ModifiedSinceStart
		r.saved = r.currentVersion()
	}
}

// savedVersion identifies the content of the state file.
type savedVersion struct {
	fingerprint

	invocation         string
	modifiedSinceStart int
}

func (r *Reader) currentVersion() savedVersion {
	return savedVersion{r.inForce.fingerprint, r.invocation, len(r.modified)}
}

// Unsaved returns a function that writes the configuration in force to the state file, or nil if that
// is not necessary. The function does file I/O, uses an immutable copy and can run in any goroutine. It
// can be called again after an error.
//
// A provisional configuration is already saved with the start that has read it. On a host without
// MicroShift's directory there is nothing to save.
func (r *Reader) Unsaved() (write func() error) {
	if r.phase == unknown || r.phase == provisional || !r.present || r.saved == r.currentVersion() {
		return nil
	}
	r.saved = r.currentVersion()
	f, sum := r.stateFile, r.saved.sum
	state := savedState{r.dir, r.invocation, r.modified, sum[:], r.inForce.nonEmptyFiles, r.inForce.digests, r.inForce.raw}
	return func() error { return f.save(state) }
}
