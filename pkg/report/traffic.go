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
	Google      ClientKind = "google"       // a validation of Google Trust Services
	Sectigo     ClientKind = "sectigo"      // a validation of Sectigo
	ZeroSSL     ClientKind = "zerossl"      // a validation of ZeroSSL
	DigiCert    ClientKind = "digicert"     // a validation of DigiCert
	Pebble      ClientKind = "pebble"       // a validation of Pebble
	StepCA      ClientKind = "step-ca"      // a validation of step-ca
	CheckClient ClientKind = "check"        // `http01-proxyd check`, of this host or another
	OtherClient ClientKind = "other"        // any other client
)

// ClientKinds returns all client kinds, in display order.
func ClientKinds() []ClientKind {
	return []ClientKind{
		CertManager, LetsEncrypt, Google, Sectigo, ZeroSSL, DigiCert, Pebble, StepCA, CheckClient, OtherClient,
	}
}

// Known reports whether the kind is one of ClientKinds.
func (k ClientKind) Known() bool { return slices.Contains(ClientKinds(), k) }

// Outcome is how a connection ended: one of Outcomes, or a [Rejection] if no request was
// sent to the ingress. The set of values is fixed.
type Outcome string

// The outcomes of requests that were forwarded to the ingress. docs/reference/metrics.md
// explains them.
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
