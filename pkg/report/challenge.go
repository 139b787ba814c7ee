// SPDX-License-Identifier: Apache-2.0

package report

import (
	"net/netip"
	"slices"
	"time"
)

// RecordChallenge is one challenge request that was under the prefix and went to the
// ingress, as the gate saw it end.
type Challenge struct {
	Time        time.Time      `json:"-"` // when the request head was complete
	Duration    time.Duration  // from then until the last byte was handed to the client's socket
	VIP         netip.Addr     // the local address that the client connected to, unmapped
	Client      netip.AddrPort // unmapped
	Method      string         // GET or HEAD
	Host        string         // in canonical form; empty when the request had none
	Token       uint64         // a hash that tells tokens apart
	TokenPrefix string         // first 8 characters, or half of a shorter token: never the whole; printable ASCII
	Status      int            // what the client got; 0 when it went away before
	Upstream    netip.AddrPort // the zero value when none was reached
	ClientKind  ClientKind     // who seems to ask
	Outcome     Outcome        // how it ended, for a counter
	Cause       string         `json:"-"` // empty when all went well, else one of the upstream's fixed set
	Detail      string         `json:"-"` // diagnosis and remediation in one line; empty when all went well
}

// Refusal is why a connection was ended without asking the ingress. The set is
// fixed, so that it can label a counter.
type Refusal string

// The reasons for which the gate refuses by itself.
const (
	NotChallenge Refusal = "not-challenge" // outside /.well-known/acme-challenge/: 400 with the fixed text
	ForeignHost  Refusal = "foreign-host"  // a name that hosts does not list: the same 400
	BadMethod    Refusal = "bad-method"    // under the prefix, but neither GET nor HEAD: 405
	BadRequest   Refusal = "bad-request"   // not a request by RFC 9112, or one with a body: 4xx or 5xx
	TooLarge     Refusal = "too-large"     // a head over the limit: 414 or 431
	HeadTimeout  Refusal = "head-timeout"  // the head was not complete in time: 408, or nothing when no byte came
	ClientGone   Refusal = "client-gone"   // closed or reset before the head was complete
	SourceLimit  Refusal = "source-limit"  // one source has more connections than limits.perSource: reset, the longest without a request first
	Evicted      Refusal = "evicted"       // of all maxConnections it had waited longest for its head, and makes room for a new one: reset
	Loop         Refusal = "loop"          // Via names this service: the route of the name leads back to the API VIP: 502
)

// HeadParsed reports whether requests are refused so that could be read as a whole: of
// these it is known who seems to ask.
func (r Refusal) HeadParsed() bool {
	switch r {
	case NotChallenge, ForeignHost, BadMethod, BadRequest, Loop:
		return true
	default:
		return false
	}
}

// RefusalCount is how many connections of an asker were refused for a reason.
type RefusalCount struct {
	Refusal    Refusal    `json:"refusal"`
	ClientKind ClientKind `json:"asker"`
	Count      uint64     `json:"count"`
}

// Refusals is the set.
func Refusals() []Refusal {
	return []Refusal{NotChallenge, ForeignHost, BadMethod, BadRequest, TooLarge, HeadTimeout, ClientGone, SourceLimit, Evicted, Loop}
}

// Known reports whether the refusal is of the set.
func (r Refusal) Known() bool { return slices.Contains(Refusals(), r) }
