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
	// SettleTime is how long a removal must stay unchanged before it takes effect.
	SettleTime = 2 * time.Second

	minRetry = 100 * time.Millisecond
	maxRetry = 2 * time.Second
)

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

	pending        bool        // the last reading was not accepted
	pendingContent fingerprint // of that reading
	pendingSince   time.Time   // when that content was first read
}

// NewReader returns a Reader for the file at path. It does not read the file yet.
func NewReader(path string) *Reader {
	return &Reader{read: func() (reading, error) { return readFile(path) }}
}

// Read reads the file again. now is the current time of one monotonic clock.
//
// A complete file takes effect at once, with everything that it adds or changes. A file must
// keep the same content for SettleTime in these cases: it lacks an API instance, a number of
// addresses or an ingress family of the last good configuration; it was deleted; it ends
// without a newline; or it has no API instance. A file that cannot be read or parsed never
// takes effect.
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
	if !r.pending || r.pendingContent != content || now.Before(r.pendingSince) {
		r.pending, r.pendingContent, r.pendingSince = true, content, now
	}
	age := now.Sub(r.pendingSince)
	if acceptable && age >= SettleTime {
		return r.accept(got, err)
	}
	retry := min(max(age, minRetry), maxRetry) // doubles if the caller follows it
	if acceptable {
		retry = min(retry, SettleTime-age)
	}
	inForce := r.lastGood.Discovery
	inForce.Files = union(got.Files, inForce.Files)
	return Snapshot{Discovery: inForce, Known: r.known, Stale: r.known, Err: reason, RetryAfter: retry}
}

// accept makes a reading the configuration in force.
func (r *Reader) accept(got reading, err error) Snapshot {
	r.known, r.lastGood, r.lastGoodErr, r.pending = true, got, err, false
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

var errMissingNewline = errors.New("a file ends without a newline")

// findLoss returns what the old configuration had and the new one lacks.
func findLoss(before, after Discovery) error {
	for _, was := range before.Instances {
		if was.Role != RoleAPI || len(was.Addrs) == 0 {
			continue
		}
		i := slices.IndexFunc(after.Instances, func(in Instance) bool { return in.Name == was.Name })
		if i < 0 {
			return fmt.Errorf("instance %s was removed", was.Name)
		}
		for _, f := range []family{familyIPv4, familyIPv6} {
			if countFamily(after.Instances[i].Addrs, f) < countFamily(was.Addrs, f) {
				return fmt.Errorf("instance %s has fewer addresses", was.Name)
			}
		}
	}
	for _, f := range []family{familyIPv4, familyIPv6} {
		if countFamily(before.VIPs.API, f) > 0 && countFamily(before.VIPs.Ingress, f) > 0 && countFamily(after.VIPs.Ingress, f) == 0 {
			return fmt.Errorf("the ingress VIP of the address family of %s was removed", firstOfFamily(before.VIPs.API, f))
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

// union returns the strings of both lists in order, each once.
func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
