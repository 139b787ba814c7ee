// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// Binary is a binary and the image that it came from.
type Binary struct {
	Image  string `json:"image"`
	SHA256 string `json:"sha256"`
}

// State is all that a run of the installer must keep for the next one.
type State struct {
	Installed Binary `json:"installed,omitzero"` // it has become ready last; without an image, if it was copied by hand
	Previous  Binary `json:"previous,omitzero"`  // the one before it
	Rejected  Binary `json:"rejected,omitzero"`  // it did not become ready, and the installed one replaces it
	Boot      Boot   `json:"boot"`
}

// setInstalled records the binary that has become ready. The one before it becomes the previous
// one.
func (s *State) setInstalled(b Binary) {
	if b.SHA256 != s.Installed.SHA256 {
		s.Previous = s.Installed
	}
	s.Installed, s.Rejected = b, Binary{}
}

// Boot is the part of the state that is valid for one boot.
type Boot struct {
	ID         string `json:"id"`
	Started    string `json:"started,omitempty"`    // checksum of unit and binary at the start of the service
	RejectedAt int64  `json:"rejectedAt,omitempty"` // seconds since the boot
}

// Observation is the host at the begin of a run.
type Observation struct {
	Image    string // which the MachineConfig requires
	Checksum string // of its binary, in the MachineConfig
	// Unlisted: the MachineConfig has checksums, but none for this machine.
	Unlisted bool
	// The checksums of the files; empty without a file.
	Program, Previous, Candidate string
	ByTimer                      bool // the timer has started the run
	JustRejected                 bool // an image was rejected less than 60 s ago
}

// Decision is what a run does.
type Decision int

// The decisions. Pull and the reports end the run.
const (
	Keep          Decision = iota // start the installed binary, which is the required one
	SwapCandidate                 // install the candidate, and start it
	SwapPrevious                  // the same with the previous binary
	GoBack                        // restore the previous binary, because the installed one was rejected
	KeepPrevious                  // the image was rejected in an earlier run: start the installed binary
	Pull
	ReportRejected // the image was rejected just now
	ReportMismatch // the candidate has another checksum
)

// Decide is the only decision of a run. A power loss is a new run: the disk shows how far the
// last one came.
func (s State) Decide(o Observation) Decision {
	required := s.required(o)
	switch {
	case o.Program != "" && o.Program == s.Rejected.SHA256 && o.Previous != "":
		return GoBack
	case s.rejects(o) && o.JustRejected: // the machine-config-daemon starts the run once for each changed unit
		return ReportRejected
	case s.rejects(o):
		return KeepPrevious
	case o.Unlisted:
		return Pull // the script reports it
	case required != "" && o.Program == required:
		return Keep
	case required != "" && o.Previous == required:
		return SwapPrevious
	case o.Candidate == "":
		return Pull
	case required != "" && o.Candidate != required:
		return ReportMismatch
	case o.Program == o.Candidate:
		return Keep
	}
	return SwapCandidate
}

// rejects reports whether this run must not try the image again, because it was rejected.
func (s State) rejects(o Observation) bool {
	return o.Image != "" && s.Rejected.Image == o.Image && s.Rejected.SHA256 != o.Program && (o.JustRejected || o.ByTimer)
}

// required is the checksum of the required binary; empty if it is not known before a pull. That of an
// image by digest, which cannot change, is known from an earlier pull.
func (s State) required(o Observation) string {
	switch {
	case o.Checksum != "" || !strings.Contains(o.Image, "@sha256:"):
		return o.Checksum
	case o.Image == s.Installed.Image:
		return s.Installed.SHA256
	case o.Image == s.Previous.Image:
		return s.Previous.SHA256
	}
	return ""
}

// anotherMaySucceed reports whether another binary may succeed after an error in this run: the
// previous one, or that of the image. Otherwise a release with such an error would prevent its own
// upgrade. A pull is useless if it returns the binary that is installed and was proven, or a
// rejected one.
func (s State) anotherMaySucceed(o Observation) bool {
	unproven := s.Installed.SHA256 != "" && s.Installed.SHA256 != o.Program
	another := o.Program == "" || o.Program != s.required(o)
	return (another || unproven) && !s.rejects(o)
}

const maxState = 64 << 10

// loadState reads the state. Without a file it is that of a host on which no run has ended. If the
// file cannot be used, it returns that state too, with the error.
func loadState(path string) (s State, err error) {
	text, err := textfile.Read(path, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return State{}, fmt.Errorf("read the state in %s: %w", path, err)
	}
	return s, nil
}

// stateFile writes the state where it has changed.
type stateFile struct {
	path string
	last []byte
}

func (f *stateFile) save(s State) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the state: %w", err)
	}
	if bytes.Equal(text, f.last) {
		return nil
	}
	if err := textfile.Replace(f.path, append(text, '\n')); err != nil {
		return fmt.Errorf("write the state: %w. Free space on the disk, if it is full", err)
	}
	f.last = text
	return nil
}
