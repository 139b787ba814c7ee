// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
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
	Installed Binary `json:"installed,omitzero"` // it became ready last; without an image, if it was copied by hand
	Rejected  Binary `json:"rejected,omitzero"`  // it did not become ready, and the installed one replaces it
	Boot      Boot   `json:"boot"`
}

// Boot is the part of the state that is valid for one boot.
type Boot struct {
	ID      string `json:"id"`
	Started string `json:"started,omitempty"` // checksum of unit and binary at the start of the service
}

// Observation is the host at the begin of a run.
type Observation struct {
	Image    string // which the MachineConfig requires
	Checksum string // of its binary, in the MachineConfig
	// The checksums of the files; empty without a file.
	Program, Previous, Candidate string
}

// Decision is what a run does.
type Decision int

// The decisions.
const (
	Keep         Decision = iota // start the installed binary, which is the required one
	Swap                         // install the candidate, and start it
	SwapPrevious                 // the same with the previous binary, which is the required one
	GoBack                       // restore the previous binary, because the installed one was rejected
	KeepPrevious                 // the image was rejected in an earlier run: start the installed binary
	Pull                         // end the run
)

// Decide is the only decision of a run. A power loss is a new run: the disk shows how far the
// last one came.
func (s State) Decide(o Observation) Decision {
	required := cmp.Or(o.Checksum, o.Candidate)
	// The binary of an image by digest, which cannot change, is known from an earlier pull.
	if o.Checksum == "" && o.Image == s.Installed.Image && strings.Contains(o.Image, "@sha256:") {
		required = s.Installed.SHA256
	}
	switch {
	case o.Program != "" && o.Program == s.Rejected.SHA256 && o.Previous != "":
		return GoBack
	case o.Program != "" && o.Program != s.Rejected.SHA256 && o.Image != "" && o.Image == s.Rejected.Image:
		return KeepPrevious
	case required != "" && o.Program == required:
		return Keep
	case required != "" && o.Previous == required:
		return SwapPrevious
	case o.Candidate == "":
		return Pull
	}
	return Swap
}

const maxState = 64 << 10

// loadState reads the state. Without a file it returns the state of a host on which no run
// ended. It returns the same state, with the error, if the file cannot be used.
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

func (s State) save(path string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the state: %w", err)
	}
	if err := textfile.Replace(path, append(text, '\n')); err != nil {
		return fmt.Errorf("write the state: %w. Free space on the disk, if it is full", err)
	}
	return nil
}
