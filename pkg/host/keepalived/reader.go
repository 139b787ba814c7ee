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

// Answer is what Reader says about the configuration.
type Answer struct {
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

	known   bool
	good    reading
	goodErr error

	doubt   bool        // the last reading was not taken over
	content fingerprint // of that reading
	since   time.Time   // when its content was first seen
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
func (r *Reader) Read(now time.Time) Answer {
	got, err := r.read()
	doubt, believable := r.doubtOf(got, err)
	if doubt == nil {
		return r.accept(got, err)
	}
	content := got.content
	if err != nil && !errors.Is(err, ErrNoAPIInstance) {
		content = sha256.Sum256(append(content[:], err.Error()...))
	}
	if !r.doubt || r.content != content || now.Before(r.since) {
		r.doubt, r.content, r.since = true, content, now
	}
	age := now.Sub(r.since)
	if believable && age >= SettleTime {
		return r.accept(got, err)
	}
	retry := min(max(age, minRetry), maxRetry) // doubles when the caller follows it
	if believable {
		retry = min(retry, SettleTime-age)
	}
	held := r.good.Discovery
	held.Files = union(got.Files, held.Files)
	return Answer{Discovery: held, Known: r.known, Stale: r.known, Err: doubt, RetryAfter: retry}
}

// accept takes a reading over as the answer.
func (r *Reader) accept(got reading, err error) Answer {
	r.known, r.good, r.goodErr, r.doubt = true, got, err, false
	return Answer{Discovery: got.Discovery, Known: true, Err: err}
}

// doubtOf says why a reading does not take effect at once, nil when it does;
// believable tells whether it may later.
func (r *Reader) doubtOf(got reading, err error) (doubt error, believable bool) {
	absent := errors.Is(err, fs.ErrNotExist)
	none := errors.Is(err, ErrNoAPIInstance)
	if err != nil && !absent && !none {
		return err, false
	}
	unsettled := func(why error) error { return fmt.Errorf("%w: %w", ErrUnsettled, why) }
	switch {
	case absent && len(r.good.VIPs.API) > 0,
		none && (!r.known || !errors.Is(r.goodErr, ErrNoAPIInstance)):
		return unsettled(err), true
	case got.torn && (!r.known || got.content != r.good.content):
		return unsettled(errTorn), true
	}
	if why := lost(r.good.Discovery, got.Discovery); why != nil {
		return unsettled(why), true
	}
	return nil, true
}

var errTorn = errors.New("a file of it ends without a newline")

// lost says what of the old answer the new one does not have.
func lost(before, after Discovery) error {
	for _, was := range before.Instances {
		if was.Role != RoleAPI || len(was.Addrs) == 0 {
			continue
		}
		i := slices.IndexFunc(after.Instances, func(in Instance) bool { return in.Name == was.Name })
		if i < 0 {
			return fmt.Errorf("instance %s is gone", was.Name)
		}
		for _, f := range []family{family4, family6} {
			if count(after.Instances[i].Addrs, f) < count(was.Addrs, f) {
				return fmt.Errorf("instance %s has fewer addresses", was.Name)
			}
		}
	}
	for _, f := range []family{family4, family6} {
		if count(before.VIPs.API, f) > 0 && count(before.VIPs.Ingress, f) > 0 && count(after.VIPs.Ingress, f) == 0 {
			return fmt.Errorf("the ingress VIP that goes with %s is gone", first(before.VIPs.API, f))
		}
	}
	return nil
}

func count(addrs []netip.Addr, f family) int {
	n := 0
	for _, a := range addrs {
		if familyOf(a) == f {
			n++
		}
	}
	return n
}

func first(addrs []netip.Addr, f family) netip.Addr {
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
