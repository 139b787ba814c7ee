// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/settled"
)

// settleTime is how long a removal must stay unchanged before it takes effect.
const settleTime = settled.LossDelay

// Snapshot is the active configuration, as Reader returns it.
type Snapshot struct {
	// Discovery is the active configuration. Its Files are the paths to watch, both for this
	// configuration and for the one that may replace it.
	Discovery Discovery
	// Known is false until a configuration was accepted.
	Known bool
	// Stale means that Discovery is the last good configuration and not the content of the
	// file.
	Stale bool
	// Err is the reason why no configuration is known or why it is stale. If Known is set and
	// Stale is not, Err is the reason why the configuration contains no VIPs. It wraps
	// ErrNoAPIInstance or fs.ErrNotExist in that case.
	Err error
	// RetryAfter is when to read again even if no change is noticed. 0 means that no retry is
	// needed.
	RetryAfter time.Duration
}

// Reader keeps the last good content of one configuration file, so that a partly written file
// removes nothing. It is not safe for concurrent use.
type Reader struct {
	path string
	file settled.File[string, configuration]
}

// configuration is a complete configuration. err is the reason why it contains no VIPs.
type configuration struct {
	Discovery
	err error
}

// NewReader returns a Reader for the file at path. It does not read the file yet.
func NewReader(path string) *Reader { return &Reader{path: path} }

// Read reads the file again. now is the current time of one monotonic clock.
//
// A complete file takes effect at once, with everything that it adds or changes. A file must
// keep the same content for settleTime if it contains fewer VIPs than the last good
// configuration or no API instance, or if it was deleted. A file that cannot be read or parsed
// never takes effect.
func (r *Reader) Read(now time.Time) Snapshot {
	found, content, err := readFile(r.path)
	return r.update(found, content, err, now)
}

func (r *Reader) update(found Discovery, content string, err error, now time.Time) Snapshot {
	none := errors.Is(err, ErrNoAPIInstance)
	complete := err == nil || none || errors.Is(err, fs.ErrNotExist)
	last, known := r.file.Value()
	delay, reason := time.Duration(0), err
	switch {
	case !complete, none && (!known || !errors.Is(last.err, ErrNoAPIInstance)):
		delay = settleTime
	case found.VIPs.FewerThan(last.VIPs):
		delay = settleTime
		if reason == nil {
			reason = errFewerVIPs
		}
	}
	content += fmt.Sprint("\x00", err)
	wait := r.file.Wait(content, delay, now)
	if complete && wait == 0 {
		r.file.Take(content, configuration{found, err}, nil)
		return Snapshot{Discovery: found, Known: true, Err: err}
	}
	last.Files = slices.Concat(found.Files, last.Files)
	return Snapshot{Discovery: last.Discovery, Known: known, Stale: known, Err: reason, RetryAfter: wait}
}

var errFewerVIPs = errors.New("keepalived.conf has fewer VIPs than before and may not be complete yet")
