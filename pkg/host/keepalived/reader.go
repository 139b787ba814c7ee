// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/settled"
)

// SettleTime is how long a removal must stay unchanged before it takes effect.
const SettleTime = settled.LossDelay

// Snapshot is the configuration in force, as Reader returns it.
type Snapshot struct {
	// Discovery is the configuration in force. Its Files are the paths to watch, both for
	// this configuration and for the one that may replace it.
	Discovery Discovery
	// Known is false until a configuration has been accepted.
	Known bool
	// Stale means that Discovery is the last good configuration and not the content of the
	// file.
	Stale bool
	// Err is why no configuration is known or why it is stale. If Known is set and Stale is
	// not, Err is why the configuration has no VIPs. It wraps ErrNoAPIInstance or
	// fs.ErrNotExist in that case.
	Err error
	// RetryAfter is when to read again even if no change is noticed. 0 means that no retry is
	// needed.
	RetryAfter time.Duration
}

// Reader keeps the last good content of one configuration file, so that a partly written file
// removes nothing. It is not safe for concurrent use.
type Reader struct {
	read func() (reading, error)

	known       bool
	lastGood    reading
	lastGoodErr error

	content settled.Content[fingerprint]
}

// NewReader returns a Reader for the file at path. It does not read the file yet.
func NewReader(path string) *Reader {
	return &Reader{read: func() (reading, error) { return readFile(path) }}
}

// Read reads the file again. now is the current time of one monotonic clock.
//
// A complete file takes effect at once, with everything that it adds or changes. A file must
// keep the same content for SettleTime in these cases: it has fewer VIPs than the last good
// configuration; it was deleted; it ends without a newline; or it has no API instance. A file
// that cannot be read or parsed never takes effect.
func (r *Reader) Read(now time.Time) Snapshot {
	got, err := r.read()
	reason, acceptable := r.assess(got, err)
	if reason == nil {
		return r.accept(got, err)
	}
	content := got.content
	if err != nil && !errors.Is(err, ErrNoAPIInstance) {
		content = sha256.Sum256(append(content[:], err.Error()...))
	}
	wait := r.content.Wait(content, SettleTime, now)
	if acceptable && wait == 0 {
		return r.accept(got, err)
	}
	inForce := r.lastGood.Discovery
	inForce.Files = slices.Concat(got.Files, inForce.Files)
	slices.Sort(inForce.Files)
	inForce.Files = slices.Compact(inForce.Files)
	return Snapshot{Discovery: inForce, Known: r.known, Stale: r.known, Err: reason, RetryAfter: wait}
}

// accept makes a reading the configuration in force.
func (r *Reader) accept(got reading, err error) Snapshot {
	r.known, r.lastGood, r.lastGoodErr = true, got, err
	r.content.Accept(got.content)
	return Snapshot{Discovery: got.Discovery, Known: true, Err: err}
}

// assess returns why a reading does not take effect at once, or nil. acceptable reports
// whether it can take effect later.
func (r *Reader) assess(got reading, err error) (reason error, acceptable bool) {
	absent := errors.Is(err, fs.ErrNotExist)
	none := errors.Is(err, ErrNoAPIInstance)
	if err != nil && !absent && !none {
		return err, false
	}
	unsettled := func(cause error) error { return fmt.Errorf("%w: %w", ErrUnsettled, cause) }
	switch {
	case absent && len(r.lastGood.VIPs.API) > 0,
		none && (!r.known || !errors.Is(r.lastGoodErr, ErrNoAPIInstance)):
		return unsettled(err), true
	case got.missingNewline && (!r.known || got.content != r.lastGood.content):
		return unsettled(errMissingNewline), true
	}
	if got.VIPs.FewerThan(r.lastGood.VIPs) {
		return unsettled(errFewerVIPs), true
	}
	return nil, true
}

var (
	errMissingNewline = errors.New("a file ends without a newline")
	errFewerVIPs      = errors.New("it has fewer VIPs than before")
)
