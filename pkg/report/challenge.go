// SPDX-License-Identifier: Apache-2.0

package report

import (
	"net/netip"
	"slices"
	"time"
)

// Challenges are the counts of requests since the start of the service.
type Challenges struct {
	Total   uint64             `json:"total"`   // forwarded to the ingress
	Refused map[Refusal]uint64 `json:"refused"` // ended without a request to the ingress
	Recent  []RecentChallenge  `json:"recent"`  // the last 20, oldest first
}

// Challenge is one challenge request that was forwarded to the ingress.
type Challenge struct {
	Time        time.Time      `json:"-"` // when the request head was complete
	Duration    time.Duration  // from Time until the last byte was written to the client's socket
	VIP         netip.Addr     // the local address that the client connected to, unmapped
	Client      netip.AddrPort // unmapped
	Method      string         // GET or HEAD
	Host        string         // in canonical form; empty if the request had no Host
	Token       uint64         // a hash that distinguishes tokens
	TokenPrefix string         // the first 8 characters, or half of a shorter token, never the whole token; printable ASCII
	Status      int            // the status code that the client received; 0 if the client disconnected before
	Upstream    netip.AddrPort // the zero value if no ingress address was reached
	ClientKind  ClientKind
	Outcome     Outcome
	Cause       string `json:"-"` // empty after success, otherwise the ID of a cause
	Detail      string `json:"-"` // diagnosis and remediation in one line; empty after success
}

// Recent returns the challenge in the form of a report.
func (c Challenge) Recent() RecentChallenge {
	r := RecentChallenge{
		Time:        c.Time,
		DurationMS:  float64(c.Duration.Microseconds()) / 1000,
		VIP:         c.VIP.String(),
		Client:      c.Client.String(),
		Method:      c.Method,
		Host:        c.Host,
		TokenPrefix: c.TokenPrefix,
		ClientKind:  c.ClientKind,
		Outcome:     c.Outcome,
		Status:      c.Status,
		Cause:       c.Cause,
		Detail:      c.Detail,
	}
	if c.Upstream.IsValid() {
		r.Upstream = c.Upstream.String()
	}
	return r
}

// RecentChallenge is a Challenge in the form of a report.
type RecentChallenge struct {
	Time        time.Time  `json:"time"`
	DurationMS  float64    `json:"durationMs"`
	VIP         string     `json:"vip"`
	Client      string     `json:"client"`
	Method      string     `json:"method"`
	Host        string     `json:"host"`
	TokenPrefix string     `json:"tokenPrefix"`
	ClientKind  ClientKind `json:"clientKind"`
	Outcome     Outcome    `json:"outcome"`
	Status      int        `json:"status"`
	Upstream    string     `json:"upstream,omitempty"`
	Cause       string     `json:"cause,omitempty"`
	Detail      string     `json:"detail,omitempty"`
}

// Refusal is why a connection ended without a request to the ingress. The set of values
// is fixed: it labels a counter.
type Refusal string

// The reasons of a refusal.
const (
	NotChallenge Refusal = "not-challenge" // outside /.well-known/acme-challenge/: 400 with the fixed text
	ForeignHost  Refusal = "foreign-host"  // a name that hosts does not list: the same 400
	BadMethod    Refusal = "bad-method"    // under the prefix, but neither GET nor HEAD: 405
	BadRequest   Refusal = "bad-request"   // not a request by RFC 9112, or one with a body: 4xx or 5xx
	TooLarge     Refusal = "too-large"     // a head over the limit: 414 or 431
	HeadTimeout  Refusal = "head-timeout"  // the head was not complete in time: 408, or no response if no byte was received
	ClientGone   Refusal = "client-gone"   // closed or reset before the head was complete
	SourceLimit  Refusal = "source-limit"  // one source has more connections than limits.perSource: the oldest without a request is reset
	Evicted      Refusal = "evicted"       // maxConnections reached: the connection that waited longest for its head is reset
	Loop         Refusal = "loop"          // Via contains this service, because the name resolves to the API VIP: 502
)

// HeadParsed reports whether the request head was parsed before the refusal. Only then
// is the client kind known.
func (r Refusal) HeadParsed() bool {
	switch r {
	case NotChallenge, ForeignHost, BadMethod, BadRequest, Loop:
		return true
	default:
		return false
	}
}

// Refusals returns all reasons.
func Refusals() []Refusal {
	return []Refusal{NotChallenge, ForeignHost, BadMethod, BadRequest, TooLarge, HeadTimeout, ClientGone, SourceLimit, Evicted, Loop}
}

// Known reports whether the refusal is one of Refusals.
func (r Refusal) Known() bool { return slices.Contains(Refusals(), r) }

// RefusalCount is the number of connections of a client kind that were refused for a
// reason.
type RefusalCount struct {
	Refusal    Refusal    `json:"refusal"`
	ClientKind ClientKind `json:"clientKind"`
	Count      uint64     `json:"count"`
}
