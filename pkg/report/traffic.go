// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// ClientKind is who seems to ask, by User-Agent: good for a story and a label, and
// trusted for nothing. The set is fixed.
type ClientKind string

// CheckUserAgent is the User-Agent of `http01-proxyd check`.
const CheckUserAgent = "http01-proxyd-check"

// The askers.
const (
	CertManager ClientKind = "cert-manager" // its self check
	LetsEncrypt ClientKind = "lets-encrypt" // a validation of Let's Encrypt
	Pebble      ClientKind = "pebble"       // a validation of Pebble
	StepCA      ClientKind = "step-ca"      // a validation of step-ca
	CheckClient ClientKind = "check"        // `http01-proxyd check`, of this host or another
	OtherClient ClientKind = "other"        // anybody else
)

// ClientKinds is the set, in the order in which it is shown.
func ClientKinds() []ClientKind {
	return []ClientKind{CertManager, LetsEncrypt, Pebble, StepCA, CheckClient, OtherClient}
}

// Known reports whether the asker is of the set.
func (a ClientKind) Known() bool { return slices.Contains(ClientKinds(), a) }

// Outcome is how a connection ended, for a counter: one of these, or a [Refusal]
// where the ingress was not asked. The set is fixed.
type Outcome string

// The outcomes of requests that went to the ingress.
const (
	Answered      Outcome = "ok"             // 200 from the ingress
	NotFound      Outcome = "not-found"      // 404: no such challenge, or not any more
	NoRoute       Outcome = "no-route"       // the router's own 503
	Redirected    Outcome = "redirect"       // the ingress leads the validator to https
	OtherStatus   Outcome = "other-status"   // any other answer of the ingress
	UpstreamError Outcome = "upstream-error" // no usable answer: the client got a 502 or 504, or a part
	AnswerUnread  Outcome = "answer-unread"  // the client was gone before it had the answer
)

// Outcomes are those of requests that went to the ingress, in the order in which
// they are shown.
func Outcomes() []Outcome {
	return []Outcome{Answered, NotFound, NoRoute, Redirected, OtherStatus, UpstreamError, AnswerUnread}
}

// Known reports whether the outcome is one of a request that went to the ingress.
func (o Outcome) Known() bool { return slices.Contains(Outcomes(), o) }

// RequestCount is how many requests of an asker ended in a way.
type RequestCount struct {
	Outcome    Outcome    `json:"outcome"`
	ClientKind ClientKind `json:"client"`
	Count      uint64     `json:"count"`
}

// Traffic is what the service has counted since it started. The zero value is
// ready.
type Traffic struct {
	Requests       []RequestCount    `json:"requests"`
	Durations      Histogram         `json:"durations"`      // of requests that went to the ingress
	UpstreamErrors map[string]uint64 `json:"upstreamErrors"` // by cause
}

// Histogram counts durations in buckets that each span the eighth part of a
// doubling: bucket i holds those over 2^((i-1)/8) s and up to 2^(i/8) s, as in
// Prometheus's native histograms of schema 3. The zero value is ready.
type Histogram struct {
	Count   uint64         `json:"count"`
	Sum     float64        `json:"sumSeconds"`
	Buckets map[int]uint64 `json:"buckets"`
}

// The buckets that there are: from 15 microseconds to a minute. Shorter and
// longer durations count in the first and the last.
const (
	FirstBucket = -16 * 8
	LastBucket  = 6 * 8
)

// BucketOf is the index of the bucket that a duration belongs to.
func BucketOf(d time.Duration) int {
	if d <= 0 {
		return FirstBucket
	}
	return max(FirstBucket, min(LastBucket, int(math.Ceil(8*math.Log2(d.Seconds())))))
}

// BucketUpperBound is the longest duration of a bucket but the last.
func BucketUpperBound(bucket int) time.Duration {
	return time.Duration(math.Exp2(float64(bucket)/8) * float64(time.Second))
}

// Add counts n durations of a bucket that sum up to sum.
func (h *Histogram) Add(bucket int, n uint64, sum time.Duration) {
	if h.Buckets == nil {
		h.Buckets = make(map[int]uint64)
	}
	h.Buckets[bucket] += n
	h.Count += n
	h.Sum += sum.Seconds()
}

// ForwardedCount is what some requests that went to the ingress have in common, and how many
// they were.
type ForwardedCount struct {
	ClientKind    ClientKind    `json:"asker"`
	Outcome       Outcome       `json:"outcome"`
	Cause         string        `json:"cause,omitempty"` // as in Challenge
	Bucket        int           `json:"bucket"`          // of their durations
	Count         uint64        `json:"count"`
	TotalDuration time.Duration `json:"took"` // all together
}

// trafficCounts counts. The zero value is ready.
type trafficCounts struct {
	requests  map[RequestCount]uint64 // with Count 0
	durations Histogram
	errors    map[string]uint64
}

func (t *trafficCounts) count(client ClientKind, outcome Outcome, n uint64) {
	if t.requests == nil {
		t.requests = make(map[RequestCount]uint64)
	}
	t.requests[RequestCount{Outcome: outcome, ClientKind: client}] += n
}

func (t *trafficCounts) add(s ForwardedCount) {
	t.count(s.ClientKind, s.Outcome, s.Count)
	t.durations.Add(s.Bucket, s.Count, s.TotalDuration)
	if s.Cause == "" {
		return
	}
	if t.errors == nil {
		t.errors = make(map[string]uint64)
	}
	t.errors[s.Cause] += s.Count
}

// withEmptyLists copies what was counted, in a fixed order.
func (t *trafficCounts) snapshot() Traffic {
	r := Traffic{Requests: make([]RequestCount, 0, len(t.requests)), Durations: t.durations, UpstreamErrors: maps.Clone(t.errors)}
	r.Durations.Buckets = maps.Clone(t.durations.Buckets)
	for key, n := range t.requests {
		key.Count = n
		r.Requests = append(r.Requests, key)
	}
	slices.SortFunc(r.Requests, func(a, b RequestCount) int {
		return cmp.Or(cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(a.ClientKind, b.ClientKind))
	})
	return r
}

// Certificate is what the API server presents, or why nobody knows.
type Certificate struct {
	Address   string    `json:"address"` // VIP and port that were asked
	Name      string    `json:"name"`    // by SNI; empty: none
	Issuer    string    `json:"issuer,omitempty"`
	Serial    string    `json:"serial,omitempty"`
	NotBefore time.Time `json:"notBefore,omitzero"`
	NotAfter  time.Time `json:"notAfter,omitzero"`
	Checked   time.Time `json:"checked"`
	Error     string    `json:"error,omitempty"`
}

// Events counts what has happened to the service since it started.
type Events struct {
	VIPTransitions uint64            `json:"vipTransitions"` // Answered that came or went
	TableRepairs   uint64            `json:"tableRepairs"`   // somebody had changed or removed our table
	Reloads        map[string]uint64 `json:"reloads"`        // by result
}

// The results of a reload.
const (
	ReloadAccepted  = "accepted"
	ReloadRefused   = "refused"
	ReloadUnchanged = "unchanged"
)
