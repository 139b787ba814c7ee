// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/status"
)

// MaxChallenges bounds the challenges that one [News] tells in full.
const MaxChallenges = 32

// MaxSums bounds the sums of one [News]; what is beyond waits for the next.
const MaxSums = 256

// Word is what the gate tells the keeper: one field is set.
type Word struct {
	Alive   *Alive   `json:"alive,omitempty"`
	Gone    *Gone    `json:"gone,omitempty"`
	Drained *Drained `json:"drained,omitempty"`
	Probed  *Probed  `json:"probed,omitempty"`
	News    *News    `json:"news,omitempty"`
	Told    *Told    `json:"told,omitempty"`
}

// Alive comes while every loop of the gate does its work.
type Alive struct{}

// Gone tells that the gate has closed a port that it was to leave.
type Gone struct {
	Port uint16 `json:"port"`
}

// Drained ends a [Drain]. Error says what could not be ended in time.
type Drained struct {
	Error string `json:"error,omitempty"`
}

// Probed is the answer to [Probe], in the order of the settings.
type Probed struct {
	Found []Reachability `json:"found"`
}

// Told ends the answer to [Tell].
type Told struct{}

// Reachability is what one ingress address said to a connection attempt.
type Reachability struct {
	Addr  netip.AddrPort `json:"addr"`
	Error string         `json:"error,omitempty"` // diagnosis and mend in one line; empty when it accepted
}

// News is what has happened since the last News.
type News struct {
	Challenges  []status.Challenge  `json:"challenges,omitempty"`  // the last of them, oldest first
	Sums        []status.Sum        `json:"sums,omitempty"`        // of all challenges
	Undelivered bool                `json:"undelivered,omitempty"` // one of all these did not reach the ingress
	Refused     []status.RefusedSum `json:"refused,omitempty"`
	Failures    uint64              `json:"failures,omitempty"`    // of accept(2), since the gate started
	LastFailure string              `json:"lastFailure,omitempty"` // the last of them
}

const (
	maxRefusals = 64 // by asker
	maxCount    = 1 << 32
	maxTook     = 1 << 62 // nanoseconds
	maxCause    = 64
	maxHost     = 260     // of a name, with a dot and a port: pkg/gate/head
	maxText     = 2 << 10 // of a diagnosis with its mend: upstream.MaxDetail
)

var errUnbelievable = errors.New("the gate says what it cannot have seen")

// Check refuses news that no gate of ours would tell: what they hold goes into
// the journal and to whoever asks for the status.
func (n *News) Check() error {
	switch {
	case len(n.Challenges) > MaxChallenges:
		return fmt.Errorf("%w: %d challenges at once", errUnbelievable, len(n.Challenges))
	case len(n.Refused) > maxRefusals:
		return fmt.Errorf("%w: %d kinds of refusals", errUnbelievable, len(n.Refused))
	case len(n.Sums) > MaxSums:
		return fmt.Errorf("%w: %d sums", errUnbelievable, len(n.Sums))
	case !plain(n.LastFailure, maxText):
		return fmt.Errorf("%w: a failure that is no line of text", errUnbelievable)
	}
	for _, r := range n.Refused {
		if !r.Refusal.Known() || !r.Asker.Known() || r.Asker != status.OtherAsker && !r.Refusal.Judged() || r.Count > maxCount {
			return fmt.Errorf("%w: %d refusals of a kind", errUnbelievable, r.Count)
		}
	}
	if !slices.ContainsFunc(n.Sums, func(s status.Sum) bool { return !countable(&s) }) {
		return n.checkChallenges()
	}
	return fmt.Errorf("%w: a sum of requests that cannot have been", errUnbelievable)
}

// countable holds for a sum that labels of fixed sets can be made of.
func countable(s *status.Sum) bool {
	return s.Asker.Known() && s.Outcome.Known() && plain(s.Cause, maxCause) && s.Count <= maxCount &&
		s.Bucket >= status.FirstBucket && s.Bucket <= status.LastBucket && s.Took >= 0 && s.Took < maxTook
}

func (n *News) checkChallenges() error {
	for i := range n.Challenges {
		if !believable(&n.Challenges[i]) {
			return fmt.Errorf("%w: a challenge with fields that no request leaves", errUnbelievable)
		}
	}
	return nil
}

// Check refuses what no ingress address can have said.
func (p *Probed) Check() error {
	for _, f := range p.Found {
		if !plain(f.Error, maxText) {
			return fmt.Errorf("%w: a diagnosis that is no line of text", errUnbelievable)
		}
	}
	return nil
}

func believable(c *status.Challenge) bool {
	return plain(c.Method, len("HEAD")) && plain(c.Host, maxHost) && plain(c.TokenPrefix, 8) &&
		plain(c.Cause, maxCause) && c.Asker.Known() && c.Outcome.Known() && plain(c.Detail, maxText) && c.Duration >= 0 && c.Status >= 0 && c.Status < 1000
}

// plain holds for one short line that may be shown.
func plain(s string, limit int) bool { return len(s) <= limit && status.OneLine(s) == s }

// Line makes one short line of a text, for a Word.
func Line(s string) string {
	// The cut may go through a character, of which nothing is left then; a space
	// that stands for another character is never longer.
	return status.OneLine(strings.ToValidUTF8(s[:min(len(s), maxText)], ""))
}
