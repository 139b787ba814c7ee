// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"time"
)

const (
	// SettleTime is how long a loss must stand unchanged to be believed.
	SettleTime = 2 * time.Second

	minRetry = 100 * time.Millisecond
	maxRetry = 2 * time.Second
)

// Snapshot is what Reader says about the configuration.
type Snapshot struct {
	// Discovery is what is in force. Its Files name what is to be watched, for
	// this answer and for the reading that may replace it.
	Discovery Discovery
	// Known is false until there has been any answer.
	Known bool
	// Stale says that Discovery is the last good answer and not what the last
	// reading found.
	Stale bool
	// Err is why there is no answer, why it is stale, or, with Known and not
	// Stale, what the answer is when it has no VIPs: it wraps ErrNoAPIInstance
	// or fs.ErrNotExist then.
	Err error
	// RetryAfter is when to read again without a change being noticed; 0: no
	// need.
	RetryAfter time.Duration
}

// Reader remembers the last good answer of one configuration file, so that a
// half-written file takes nothing away. It is not safe for concurrent use.
type Reader struct {
	read func() (reading, error)

	known       bool
	lastGood    reading
	lastGoodErr error

	pending        bool        // the last reading was not taken over
	pendingContent fingerprint // of that reading
	pendingSince   time.Time   // when its content was first seen
}

// NewReader returns a Reader of the file at path. It does not read yet.
func NewReader(path string) *Reader {
	return &Reader{read: func() (reading, error) { return readFile(path) }}
}

// Read reads the file anew; now is the present time, which a caller takes from
// one monotonic clock.
//
// A complete file takes effect at once, with all that it adds or changes. It
// does not when something is gone that the last good answer had (an API
// instance, an address of one without another in its place, the ingress VIP of
// an API VIP's family, the file itself), or when the file ends without a
// newline, or has no API instance: then it must have had the same content for
// SettleTime. A file that cannot be read or parsed never takes effect.
func (r *Reader) Read(now time.Time) Snapshot {
	got, err := r.read()
	doubt, believable := r.assess(got, err)
	if doubt == nil {
		return r.accept(got, err)
	}
	content := got.content
	if err != nil && !errors.Is(err, ErrNoAPIInstance) {
		content = sha256.Sum256(append(content[:], err.Error()...))
	}
	if !r.pending || r.pendingContent != content || now.Before(r.pendingSince) {
		r.pending, r.pendingContent, r.pendingSince = true, content, now
	}
	age := now.Sub(r.pendingSince)
	if believable && age >= SettleTime {
		return r.accept(got, err)
	}
	retry := min(max(age, minRetry), maxRetry) // doubles when the caller follows it
	if believable {
		retry = min(retry, SettleTime-age)
	}
	held := r.lastGood.Discovery
	held.Files = union(got.Files, held.Files)
	return Snapshot{Discovery: held, Known: r.known, Stale: r.known, Err: doubt, RetryAfter: retry}
}

// accept takes a reading over as the answer.
func (r *Reader) accept(got reading, err error) Snapshot {
	r.known, r.lastGood, r.lastGoodErr, r.pending = true, got, err, false
	return Snapshot{Discovery: got.Discovery, Known: true, Err: err}
}

// assess says why a reading does not take effect at once, nil when it does;
// believable tells whether it may later.
func (r *Reader) assess(got reading, err error) (doubt error, believable bool) {
	absent := errors.Is(err, fs.ErrNotExist)
	none := errors.Is(err, ErrNoAPIInstance)
	if err != nil && !absent && !none {
		return err, false
	}
	unsettled := func(why error) error { return fmt.Errorf("%w: %w", ErrUnsettled, why) }
	switch {
	case absent && len(r.lastGood.VIPs.API) > 0,
		none && (!r.known || !errors.Is(r.lastGoodErr, ErrNoAPIInstance)):
		return unsettled(err), true
	case got.missingNewline && (!r.known || got.content != r.lastGood.content):
		return unsettled(errMissingNewline), true
	}
	if why := findLoss(r.lastGood.Discovery, got.Discovery); why != nil {
		return unsettled(why), true
	}
	return nil, true
}

var errMissingNewline = errors.New("a file of it ends without a newline")

// findLoss says what of the old answer the new one does not have.
func findLoss(before, after Discovery) error {
	for _, was := range before.Instances {
		if was.Role != RoleAPI || len(was.Addrs) == 0 {
			continue
		}
		i := slices.IndexFunc(after.Instances, func(in Instance) bool { return in.Name == was.Name })
		if i < 0 {
			return fmt.Errorf("instance %s is gone", was.Name)
		}
		for _, f := range []family{familyIPv4, familyIPv6} {
			if countFamily(after.Instances[i].Addrs, f) < countFamily(was.Addrs, f) {
				return fmt.Errorf("instance %s has fewer addresses", was.Name)
			}
		}
	}
	for _, f := range []family{familyIPv4, familyIPv6} {
		if countFamily(before.VIPs.API, f) > 0 && countFamily(before.VIPs.Ingress, f) > 0 && countFamily(after.VIPs.Ingress, f) == 0 {
			return fmt.Errorf("the ingress VIP that goes with %s is gone", firstOfFamily(before.VIPs.API, f))
		}
	}
	return nil
}

func countFamily(addrs []netip.Addr, f family) int {
	n := 0
	for _, a := range addrs {
		if familyOf(a) == f {
			n++
		}
	}
	return n
}

func firstOfFamily(addrs []netip.Addr, f family) netip.Addr {
	for _, a := range addrs {
		if familyOf(a) == f {
			return a
		}
	}
	return netip.Addr{}
}

// union returns the strings of both lists, in order, each once.
func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
