// SPDX-License-Identifier: Apache-2.0

package report

import (
	"net/netip"
	"slices"
	"time"
)

// Challenges are the counts of requests since the start of the service.
type Challenges struct {
	Total    uint64               `json:"total"`    // forwarded to the ingress
	Rejected map[Rejection]uint64 `json:"rejected"` // ended without a request to the ingress
	Recent   []RecentChallenge    `json:"recent"`   // the last 20, oldest first
	// LastForeignHost is when a client that identifies itself as cert-manager or a CA last requested
	// a challenge for a name that is not accepted: UTC, in whole seconds; absent since the accepted
	// names have changed.
	LastForeignHost time.Time `json:"lastForeignHost,omitzero"`
}

// Challenge is one challenge request that was forwarded to the ingress.
type Challenge struct {
	Time     time.Time      `json:"-"` // when the request head was complete
	Duration time.Duration  // from Time until the last byte was written to the client's socket
	VIP      netip.Addr     // the local address that the client connected to, unmapped
	Client   netip.AddrPort // unmapped
	Method   string         // GET or HEAD
	Host     string         // in canonical form; empty if the request had no Host
	Token    uint64         // a hash that distinguishes tokens
	// the first 8 characters, or half of a shorter token, never the whole token; printable ASCII
	TokenPrefix string
	Status      int            // the status code that the client received; 0 if the client disconnected before
	Upstream    netip.AddrPort // the zero value if no ingress address was reached
	ClientKind  ClientKind
	Outcome     Outcome
	Cause       string `json:"-"` // empty after success, otherwise the ID of a cause
	Detail      string `json:"-"` // diagnosis and remediation in one line; empty after success
}

// Source returns what identifies the source of the request.
func (c *Challenge) Source() netip.Prefix { return SourceOf(c.Client.Addr()) }

// SourceOf returns what identifies the source of an unmapped address: an IPv4 address, or the /64
// of an IPv6 address. One host can use any address of a /64 (RFC 4291 section 2.5.4, RFC 8981).
// Addresses with the well-known translation prefix are identified by the IPv4 address inside
// (RFC 6052 section 2.1). This single /64 contains the whole IPv4 internet.
func SourceOf(client netip.Addr) netip.Prefix {
	if nat64.Contains(client) {
		b := client.As16()
		client = netip.AddrFrom4([4]byte(b[12:]))
	}
	source, _ := client.Prefix(min(client.BitLen(), 64))
	return source
}

// Displaces returns which of n challenges, the oldest first, makes room for this one, so that a
// flood does not hide the challenges of others: one of the same source and host, or of the same
// source, or the first.
func (c *Challenge) Displaces(n int, challenge func(i int) *Challenge) int {
	source, ofSource := c.Source(), -1
	for i := range n {
		o := challenge(i)
		switch {
		case o.Source() != source:
		case o.Host == c.Host:
			return i
		case ofSource < 0:
			ofSource = i
		default:
		}
	}
	return max(0, ofSource)
}

//nolint:gochecknoglobals // a constant
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

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

// IsValidation reports whether cert-manager or a CA requested a challenge, one of all. Other clients,
// including check itself, use invented tokens.
func (c RecentChallenge) IsValidation(all []RecentChallenge) bool {
	switch c.ClientKind {
	case CertManager, LetsEncrypt, Google, Sectigo, ZeroSSL, DigiCert, Pebble:
		return true
	case StepCA:
		// Any Go program sends this User-Agent. But only the CA knows a token that cert-manager
		// requested before.
		return slices.ContainsFunc(all, func(o RecentChallenge) bool {
			return o.ClientKind == CertManager && o.Host == c.Host && o.TokenPrefix == c.TokenPrefix
		})
	default:
		return false
	}
}

// Rejection is why a connection ended without a request to the ingress. The set of values
// is fixed: it labels a counter.
type Rejection string

// The reasons of a rejection. docs/reference/metrics.md explains them.
const (
	NotChallenge Rejection = "not-challenge"
	ForeignHost  Rejection = "foreign-host"
	BadMethod    Rejection = "bad-method"
	BadRequest   Rejection = "bad-request" // by RFC 9112
	TooLarge     Rejection = "too-large"
	HeadTimeout  Rejection = "head-timeout"
	ClientGone   Rejection = "client-gone"
	SourceLimit  Rejection = "source-limit" // it waited, and its source had too many
	Evicted      Rejection = "evicted"      // it waited, and all sources together had too many
	Loop         Rejection = "loop"         // Via contains this service
)

// HeadParsed reports whether the request head was parsed before the rejection. Only then
// is the client kind known.
func (r Rejection) HeadParsed() bool {
	switch r {
	case NotChallenge, ForeignHost, BadMethod, BadRequest, Loop:
		return true
	default:
		return false
	}
}

// Rejections returns all reasons.
func Rejections() []Rejection {
	return []Rejection{
		NotChallenge, ForeignHost, BadMethod, BadRequest, TooLarge, HeadTimeout, ClientGone, SourceLimit, Evicted, Loop,
	}
}

// Known reports whether the rejection is one of Rejections.
func (r Rejection) Known() bool { return slices.Contains(Rejections(), r) }

// RejectionCount is the number of connections of a client kind that were rejected for a
// reason.
type RejectionCount struct {
	Rejection  Rejection  `json:"rejection"`
	ClientKind ClientKind `json:"clientKind"`
	Count      uint64     `json:"count"`
}
