// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"slices"
	"time"
)

// ClientKind classifies a client by its User-Agent, for logs and metrics. It can be
// forged and never affects handling. The set of values is fixed.
type ClientKind string

// CheckUserAgent is the User-Agent of `http01-proxyd check`.
const CheckUserAgent = "http01-proxyd-check"

// The client kinds.
const (
	CertManager ClientKind = "cert-manager" // its self-check
	LetsEncrypt ClientKind = "lets-encrypt" // a validation of Let's Encrypt
	Pebble      ClientKind = "pebble"       // a validation of Pebble
	StepCA      ClientKind = "step-ca"      // a validation of step-ca
	CheckClient ClientKind = "check"        // `http01-proxyd check`, of this host or another
	OtherClient ClientKind = "other"        // any other client
)

// ClientKinds returns all client kinds, in display order.
func ClientKinds() []ClientKind {
	return []ClientKind{CertManager, LetsEncrypt, Pebble, StepCA, CheckClient, OtherClient}
}

// Known reports whether the kind is one of ClientKinds.
func (k ClientKind) Known() bool { return slices.Contains(ClientKinds(), k) }

// Outcome is how a connection ended: one of Outcomes, or a [Rejection] if no request was
// sent to the ingress. The set of values is fixed.
type Outcome string

// The outcomes of requests that were forwarded to the ingress; see Meaning.
const (
	Answered      Outcome = "ok"
	NotFound      Outcome = "not-found"
	NoRoute       Outcome = "no-route"
	Redirected    Outcome = "redirect"
	OtherStatus   Outcome = "other-status"
	UpstreamError Outcome = "upstream-error"
	AnswerUnread  Outcome = "answer-unread"
)

// Outcomes returns the outcomes of forwarded requests, in display order.
func Outcomes() []Outcome {
	return []Outcome{Answered, NotFound, NoRoute, Redirected, OtherStatus, UpstreamError, AnswerUnread}
}

// Known reports whether the outcome is one of Outcomes.
func (o Outcome) Known() bool { return slices.Contains(Outcomes(), o) }

// Meaning explains an outcome or a rejection to an operator, with names of configuration
// keys between backticks. It is empty for a value that is neither.
func (o Outcome) Meaning() string {
	switch o {
	case Answered:
		return "200 from the ingress"
	case NotFound:
		return "404 from the ingress: the solver does not have this token"
	case NoRoute:
		return "503 from the router: it has no route for this name"
	case Redirected:
		return "a redirect to https, passed on to the client"
	case OtherStatus:
		return "another status from the ingress"
	case UpstreamError:
		return "no usable response: the client got 502, 504 or an incomplete response"
	case AnswerUnread:
		return "the client closed the connection before the response was complete"
	}
	switch Rejection(o) {
	case NotChallenge:
		return "400: the path is not a challenge"
	case ForeignHost:
		return "400: `hosts` does not list the name"
	case BadMethod:
		return "405: a challenge, with another method than GET and HEAD"
	case BadRequest:
		return "4xx or 5xx: not a valid HTTP/1 request, or one with a body"
	case TooLarge:
		return "414 or 431: the request's head exceeds `limits.headBytes`"
	case HeadTimeout:
		return "408, or no response: the head was not complete within `limits.headTimeout`"
	case ClientGone:
		return "the client closed the connection before its request was complete"
	case SourceLimit:
		return "reset: one source has more connections than `limits.perSource`"
	case Evicted:
		return "reset: `limits.maxConnections` was reached, and this connection had waited longest"
	case Loop:
		return "502: the request came back from the ingress to the API VIP"
	default:
		return ""
	}
}

// RequestCount is the number of requests of a client kind with an outcome.
type RequestCount struct {
	Outcome    Outcome    `json:"outcome"`
	ClientKind ClientKind `json:"clientKind"`
	Count      uint64     `json:"count"`
}

// Traffic is the counts of requests since the start of the service. The zero value is
// ready.
type Traffic struct {
	Requests       []RequestCount    `json:"requests"`
	Durations      Histogram         `json:"durations"`      // of forwarded requests
	UpstreamErrors map[string]uint64 `json:"upstreamErrors"` // by cause
}

// Histogram counts durations in buckets. Bucket i counts the durations over 2^((i-1)/8) s
// and up to 2^(i/8) s, as in Prometheus's native histograms of schema 3. The zero value
// is ready.
type Histogram struct {
	Count   uint64         `json:"count"`
	Sum     float64        `json:"sumSeconds"`
	Buckets map[int]uint64 `json:"buckets"`
}

// The range of the buckets: from 15 microseconds to a minute. Shorter durations count in
// the first bucket, longer durations in the last.
const (
	FirstBucket = -16 * 8
	LastBucket  = 6 * 8
)

// BucketOf returns the index of the bucket of a duration.
func BucketOf(d time.Duration) int {
	if d <= 0 {
		return FirstBucket
	}
	return max(FirstBucket, min(LastBucket, int(math.Ceil(8*math.Log2(d.Seconds())))))
}

// BucketUpperBound returns the longest duration of a bucket. The last bucket has no
// upper bound.
func BucketUpperBound(bucket int) time.Duration {
	return time.Duration(math.Exp2(float64(bucket)/8) * float64(time.Second))
}

// Add counts n durations of a bucket; sum is their sum.
func (h *Histogram) Add(bucket int, n uint64, sum time.Duration) {
	if h.Buckets == nil {
		h.Buckets = make(map[int]uint64)
	}
	h.Buckets[bucket] += n
	h.Count += n
	h.Sum += sum.Seconds()
}

// ForwardedCount is the number of forwarded requests with the same client kind, outcome,
// cause and bucket.
type ForwardedCount struct {
	ClientKind    ClientKind    `json:"clientKind"`
	Outcome       Outcome       `json:"outcome"`
	Cause         string        `json:"cause,omitempty"` // as in Challenge
	Bucket        int           `json:"bucket"`          // of the durations
	Count         uint64        `json:"count"`
	TotalDuration time.Duration `json:"totalDuration"`
}
