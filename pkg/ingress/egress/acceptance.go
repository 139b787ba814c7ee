// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"bytes"
	"slices"
	"time"
)

// The delays between two attempts for a setting that is not accepted yet. They double.
const (
	FirstRetry = time.Second
	LastRetry  = time.Minute
)

// Configuration is the unit of acceptance: a change of any part requires a new check.
type Configuration struct {
	Settings         ProxySettings
	Endpoints        []string // URLs that must answer
	Roots            [][]byte // DER, of egressProxy.trustedCA
	RootsDescription string   // a description of Roots, ignored by Equal
}

// Equal reports whether both request the same.
func (s Configuration) Equal(o Configuration) bool {
	return s.Settings.Equal(o.Settings) && slices.Equal(s.Endpoints, o.Endpoints) && slices.EqualFunc(s.Roots, o.Roots, bytes.Equal)
}

// Endpoint is the result of the last request to a readiness endpoint.
type Endpoint struct {
	URL     string
	OK      bool
	Error   string    // empty on success
	Checked time.Time // zero: not requested yet
}

// Acceptance separates the requested from the accepted configuration, as spec and
// status of OpenShift's Proxy do: only an accepted configuration is used. It is pure.
// The zero value has no configuration.
type Acceptance struct {
	spec       *Configuration // nil: none, or rejected
	accepted   *Configuration
	acceptedAt time.Time // of the acceptance
	restored   bool      // a former process has accepted it
	specSince  time.Time // time of the last change of spec or rejection
	rejection  error
	generation uint64 // identifies the spec of a result
	probing    bool
	failures   int
	nextProbe  time.Time
	endpoints  []Endpoint // results for the spec
}

// Restore sets the configuration that a former process has accepted.
func (a *Acceptance) Restore(s Configuration, at time.Time) {
	a.accepted, a.acceptedAt, a.restored = &s, at, true
}

// SetSpec sets the requested configuration, and reports whether the accepted one has
// changed. A configuration without a proxy or without endpoints is accepted
// immediately: OpenShift's cluster-network-operator validates neither (Reconcile of
// pkg/controller/proxyconfig/controller.go). An endpoint that answers without a proxy
// would prove nothing.
func (a *Acceptance) SetSpec(s Configuration, now time.Time) (changed bool) {
	if a.spec != nil && a.spec.Equal(s) {
		return a.updateSource(s)
	}
	a.spec, a.rejection, a.specSince = &s, nil, now
	a.generation++
	a.probing, a.failures, a.nextProbe = false, 0, now
	a.endpoints = make([]Endpoint, len(s.Endpoints))
	for i, url := range s.Endpoints {
		a.endpoints[i].URL = url
	}
	if a.accepted != nil && a.accepted.Equal(s) {
		for i := range a.endpoints {
			a.endpoints[i].OK, a.endpoints[i].Checked = true, a.acceptedAt
		}
		return a.updateSource(s)
	}
	if s.Settings.IsEmpty() || len(s.Endpoints) == 0 {
		a.accept(now)
		return true
	}
	return false
}

// updateSource sets the source of an otherwise equal configuration.
func (a *Acceptance) updateSource(s Configuration) (changed bool) {
	a.spec = &s
	if a.accepted == nil || !a.accepted.Equal(s) || a.accepted.Settings.Source == s.Settings.Source {
		return false
	}
	a.accepted = &s
	return true
}

// RejectSpec records that the requested configuration is invalid. The accepted one
// stays in force.
func (a *Acceptance) RejectSpec(reason error, now time.Time) {
	if a.rejection == nil || a.rejection.Error() != reason.Error() {
		a.specSince = now
	}
	a.spec, a.rejection, a.endpoints = nil, reason, nil
	a.generation++
	a.probing = false
}

func (a *Acceptance) accept(now time.Time) {
	a.accepted, a.acceptedAt, a.restored = a.spec, now, false
}

// Pending reports whether a configuration waits for its acceptance.
func (a *Acceptance) Pending() bool {
	return a.spec != nil && (a.accepted == nil || !a.accepted.Equal(*a.spec))
}

// Generation changes with the requested configuration. Results for an earlier
// generation are ignored.
func (a *Acceptance) Generation() uint64 { return a.generation }

// NextProbe returns the configuration whose endpoints must all be requested now, or
// nil. RecordResults takes the results.
func (a *Acceptance) NextProbe(now time.Time) (generation uint64, s *Configuration) {
	if !a.Pending() || a.probing || now.Before(a.nextProbe) {
		return a.generation, nil
	}
	a.probing = true
	return a.generation, a.spec
}

// RecordResults takes the results of the endpoints in their order: the reason of a
// failure, or "". It reports whether the configuration is accepted now.
func (a *Acceptance) RecordResults(generation uint64, results []string, now time.Time) (accepted bool) {
	if generation != a.generation || !a.probing || len(results) != len(a.endpoints) {
		return false // a result for an earlier spec
	}
	a.probing = false
	all := true
	for i, reason := range results {
		a.endpoints[i].OK, a.endpoints[i].Error, a.endpoints[i].Checked = reason == "", reason, now
		all = all && reason == ""
	}
	if all {
		a.accept(now)
		return true
	}
	a.nextProbe = now.Add(min(FirstRetry<<min(a.failures, 10), LastRetry))
	a.failures++
	return false
}

// AcceptanceState is a snapshot for the status.
type AcceptanceState struct {
	Spec       *Configuration // nil: none, or rejected
	Accepted   *Configuration // nil: none
	AcceptedAt time.Time
	Restored   bool       // a former process has accepted Accepted; the clock may have been set since
	SpecSince  time.Time  // time of the last change of Spec
	Rejection  error      // the reason why the spec is invalid
	NextProbe  time.Time  // the next attempt; zero: none, or in progress
	Failures   int        // number of failed attempts
	Endpoints  []Endpoint // of the spec
}

// State returns a snapshot.
func (a *Acceptance) State() AcceptanceState {
	s := AcceptanceState{
		Spec: a.spec, Accepted: a.accepted, AcceptedAt: a.acceptedAt, Restored: a.restored, SpecSince: a.specSince, Rejection: a.rejection,
		Failures: a.failures, Endpoints: slices.Clone(a.endpoints),
	}
	if a.Pending() && !a.probing {
		s.NextProbe = a.nextProbe
	}
	return s
}

// Effective returns the accepted configuration. The zero value means no proxy.
func (a *Acceptance) Effective() Configuration {
	if a.accepted == nil {
		return Configuration{}
	}
	return *a.accepted
}
