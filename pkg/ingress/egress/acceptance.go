// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"bytes"
	"slices"
	"time"
)

// The waits between two tries of a setting that is not accepted yet; they double.
const (
	FirstRetry = time.Second
	LastRetry  = time.Minute
)

// Configuration is all that is accepted as one: a change of any part is asked for anew.
type Configuration struct {
	Settings         ProxySettings
	Endpoints        []string // URLs that must answer
	Roots            [][]byte // DER, of egressProxy.trustedCA
	RootsDescription string   // what Roots are; it does not tell settings apart
}

// Equal reports whether both ask for the same.
func (s Configuration) Equal(o Configuration) bool {
	return s.Settings.Equal(o.Settings) && slices.Equal(s.Endpoints, o.Endpoints) && slices.EqualFunc(s.Roots, o.Roots, bytes.Equal)
}

// Endpoint is what came of the last question to a readiness endpoint.
type Endpoint struct {
	URL     string
	OK      bool
	Error   string    // why not
	Checked time.Time // zero: not asked yet
}

// Acceptance keeps what is asked for apart from what is accepted, as the status of
// OpenShift's Proxy does: only accepted settings are used. It is pure; the zero
// value has seen nothing.
type Acceptance struct {
	spec       *Configuration // nil: none was seen, or it is refused
	accepted   *Configuration
	acceptedAt time.Time // of the acceptance
	specSince  time.Time // spec, or the refusal, is as it is
	rejection  error
	generation uint64 // tells answers to former specs apart
	probing    bool
	failures   int
	nextProbe  time.Time
	endpoints  []Endpoint // of the spec; of the accepted setting once that is the spec
}

// Restore takes what a former process has accepted.
func (a *Acceptance) Restore(s Configuration, at time.Time) {
	a.accepted, a.acceptedAt = &s, at
}

// SetSpec takes what is asked for now, and reports whether what is accepted changed.
// A setting without a proxy, or without endpoints, is accepted at once:
// OpenShift's cluster-network-operator validates neither (Reconcile of
// pkg/controller/proxyconfig/controller.go). An endpoint that answers without a
// proxy would tell nothing about the setting.
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

// updateSource takes the source of a setting that is the same otherwise.
func (a *Acceptance) updateSource(s Configuration) (changed bool) {
	a.spec = &s
	if a.accepted == nil || !a.accepted.Equal(s) || a.accepted.Settings.Source == s.Settings.Source {
		return false
	}
	a.accepted = &s
	return true
}

// RejectSpec takes that what is asked for cannot be understood. What is accepted stays
// in force.
func (a *Acceptance) RejectSpec(why error, now time.Time) {
	if a.rejection == nil || a.rejection.Error() != why.Error() {
		a.specSince = now
	}
	a.spec, a.rejection, a.endpoints = nil, why, nil
	a.generation++
	a.probing = false
}

func (a *Acceptance) accept(now time.Time) { a.accepted, a.acceptedAt = a.spec, now }

// Pending reports whether a setting waits for its acceptance.
func (a *Acceptance) Pending() bool {
	return a.spec != nil && (a.accepted == nil || !a.accepted.Equal(*a.spec))
}

// Generation changes when the setting that is asked for does: questions about the former
// one are void.
func (a *Acceptance) Generation() uint64 { return a.generation }

// NextProbe returns the setting whose endpoints are to be asked now, all of them; Heard
// takes the answers. It returns nil when that is not due.
func (a *Acceptance) NextProbe(now time.Time) (turn uint64, s *Configuration) {
	if !a.Pending() || a.probing || now.Before(a.nextProbe) {
		return a.generation, nil
	}
	a.probing = true
	return a.generation, a.spec
}

// RecordResults takes the answers of the setting's endpoints in their order: why each has
// not answered, or "". It reports whether the setting is accepted now.
func (a *Acceptance) RecordResults(turn uint64, answers []string, now time.Time) (accepted bool) {
	if turn != a.generation || !a.probing || len(answers) != len(a.endpoints) {
		return false // of a setting that is not asked for any more
	}
	a.probing = false
	all := true
	for i, why := range answers {
		a.endpoints[i].OK, a.endpoints[i].Error, a.endpoints[i].Checked = why == "", why, now
		all = all && why == ""
	}
	if all {
		a.accept(now)
		return true
	}
	a.nextProbe = now.Add(min(FirstRetry<<min(a.failures, 10), LastRetry))
	a.failures++
	return false
}

// AcceptanceState is the whole of it, for people.
type AcceptanceState struct {
	Spec       *Configuration // nil: none was seen, or it is refused
	Accepted   *Configuration // nil: none
	AcceptedAt time.Time
	SpecSince  time.Time  // what is asked for is as it is
	Rejection  error      // why what is asked for is not even tried
	NextProbe  time.Time  // the next try; zero: none, or it is under way
	Failures   int        // that have failed
	Endpoints  []Endpoint // of the spec
}

// AcceptanceState returns what is so.
func (a *Acceptance) State() AcceptanceState {
	s := AcceptanceState{
		Spec: a.spec, Accepted: a.accepted, AcceptedAt: a.acceptedAt, SpecSince: a.specSince, Rejection: a.rejection,
		Failures: a.failures, Endpoints: slices.Clone(a.endpoints),
	}
	if a.Pending() && !a.probing {
		s.NextProbe = a.nextProbe
	}
	return s
}

// Effective is the accepted setting; none was, the zero value: no proxy.
func (a *Acceptance) Effective() Configuration {
	if a.accepted == nil {
		return Configuration{}
	}
	return *a.accepted
}
