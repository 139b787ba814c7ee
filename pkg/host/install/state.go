// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// Phase is what a run has done with the binary so far.
type Phase string

// The phases. The table is in the documentation of the package.
const (
	Settled    Phase = "settled"
	Swapping   Phase = "swapping"
	Starting   Phase = "starting"
	Restoring  Phase = "restoring"
	Restarting Phase = "restarting"
	Rejected   Phase = "rejected"
)

func phases() []Phase {
	return []Phase{Settled, Swapping, Starting, Restoring, Restarting, Rejected}
}

// Binary is a binary and the image that it came from.
type Binary struct {
	Image  string `json:"image"`
	SHA256 string `json:"sha256"`
}

// byDigest reports whether the image cannot change.
func (b Binary) byDigest() bool { return strings.Contains(b.Image, "@sha256:") }

// State is all that a run of the installer must keep for the next one.
type State struct {
	Phase  Phase    `json:"phase"`
	Binary Binary   `json:"binary"`           // of the phase: installed, the candidate, or rejected
	Proven string   `json:"proven,omitempty"` // checksum of the binary that has become ready last
	Pulled []Binary `json:"pulled,omitempty"` // what images had when they were pulled by digest; the last one first
	Boot   Boot     `json:"boot"`
}

// Boot is the part of the state that is valid for one boot.
type Boot struct {
	ID         string `json:"id"`
	Started    string `json:"started,omitempty"`    // checksum of the unit and the binary that the service was started from
	RejectedAt int64  `json:"rejectedAt,omitempty"` // seconds since the boot
}

const (
	maxState  = 64 << 10
	maxPulled = 16
)

// loadState reads the state. Without a file it is that of a host on which no run has ended. If the
// file cannot be used, it returns that state too, with the error.
func loadState(path string) (State, error) {
	none := State{Phase: Settled}
	text, err := textfile.Read(path, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("read the state: %w", err)
	}
	var s State
	if err := json.Unmarshal(text, &s); err != nil {
		return none, fmt.Errorf("read the state in %s: %w", path, err)
	}
	if !slices.Contains(phases(), s.Phase) {
		return none, fmt.Errorf("read the state in %s: unknown phase %q", path, s.Phase)
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
		return fmt.Errorf("write the state: %w", err)
	}
	f.last = text
	return nil
}
