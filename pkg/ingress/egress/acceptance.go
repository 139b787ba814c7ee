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

// Setting is all that is accepted as one: a change of any part is asked for anew.
type Setting struct {
	Settings  Settings
	Endpoints []string // URLs that must answer
	Roots     [][]byte // DER, of egressProxy.trustedCA
	About     string   // what Roots are; it does not tell settings apart
}

// Equal reports whether both ask for the same.
func (s Setting) Equal(o Setting) bool {
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
	spec      *Setting // nil: none was seen, or it is refused
	accepted  *Setting
	at        time.Time // of the acceptance
	since     time.Time // spec, or the refusal, is as it is
	refused   error
	turn      uint64 // tells answers to former specs apart
	asking    bool
	tries     int
	next      time.Time
	endpoints []Endpoint // of the spec; of the accepted setting once that is the spec
}

// Restore takes what a former process has accepted.
func (a *Acceptance) Restore(s Setting, at time.Time) {
	a.accepted, a.at = &s, at
}

// Want takes what is asked for now, and reports whether what is accepted changed.
// A setting without a proxy, or without endpoints, is accepted at once:
// OpenShift's cluster-network-operator validates neither (Reconcile of
// pkg/controller/proxyconfig/controller.go). An endpoint that answers without a
// proxy would tell nothing about the setting.
func (a *Acceptance) Want(s Setting, now time.Time) (changed bool) {
	if a.spec != nil && a.spec.Equal(s) {
		return a.rename(s)
	}
	a.spec, a.refused, a.since = &s, nil, now
	a.turn++
	a.asking, a.tries, a.next = false, 0, now
	a.endpoints = make([]Endpoint, len(s.Endpoints))
	for i, url := range s.Endpoints {
		a.endpoints[i].URL = url
	}
	if a.accepted != nil && a.accepted.Equal(s) {
		for i := range a.endpoints {
			a.endpoints[i].OK, a.endpoints[i].Checked = true, a.at
		}
		return a.rename(s)
	}
	if s.Settings.None() || len(s.Endpoints) == 0 {
		a.accept(now)
		return true
	}
	return false
}

// rename takes the source of a setting that is the same otherwise.
func (a *Acceptance) rename(s Setting) (changed bool) {
	a.spec = &s
	if a.accepted == nil || !a.accepted.Equal(s) || a.accepted.Settings.Source == s.Settings.Source {
		return false
	}
	a.accepted = &s
	return true
}

// Refuse takes that what is asked for cannot be understood. What is accepted stays
// in force.
func (a *Acceptance) Refuse(why error, now time.Time) {
	if a.refused == nil || a.refused.Error() != why.Error() {
		a.since = now
	}
	a.spec, a.refused, a.endpoints = nil, why, nil
	a.turn++
	a.asking = false
}

func (a *Acceptance) accept(now time.Time) { a.accepted, a.at = a.spec, now }

// Pending reports whether a setting waits for its acceptance.
func (a *Acceptance) Pending() bool {
	return a.spec != nil && (a.accepted == nil || !a.accepted.Equal(*a.spec))
}

// Turn changes when the setting that is asked for does: questions about the former
// one are void.
func (a *Acceptance) Turn() uint64 { return a.turn }

// Ask returns the setting whose endpoints are to be asked now, all of them; Heard
// takes the answers. It returns nil when that is not due.
func (a *Acceptance) Ask(now time.Time) (turn uint64, s *Setting) {
	if !a.Pending() || a.asking || now.Before(a.next) {
		return a.turn, nil
	}
	a.asking = true
	return a.turn, a.spec
}

// Heard takes the answers of the setting's endpoints in their order: why each has
// not answered, or "". It reports whether the setting is accepted now.
func (a *Acceptance) Heard(turn uint64, answers []string, now time.Time) (accepted bool) {
	if turn != a.turn || !a.asking || len(answers) != len(a.endpoints) {
		return false // of a setting that is not asked for any more
	}
	a.asking = false
	all := true
	for i, why := range answers {
		a.endpoints[i].OK, a.endpoints[i].Error, a.endpoints[i].Checked = why == "", why, now
		all = all && why == ""
	}
	if all {
		a.accept(now)
		return true
	}
	a.next = now.Add(min(FirstRetry<<min(a.tries, 10), LastRetry))
	a.tries++
	return false
}

// State is the whole of it, for people.
type State struct {
	Spec      *Setting // nil: none was seen, or it is refused
	Accepted  *Setting // nil: none
	At        time.Time
	Since     time.Time  // what is asked for is as it is
	Refused   error      // why what is asked for is not even tried
	Next      time.Time  // the next try; zero: none, or it is under way
	Tries     int        // that have failed
	Endpoints []Endpoint // of the spec
}

// State returns what is so.
func (a *Acceptance) State() State {
	s := State{
		Spec: a.spec, Accepted: a.accepted, At: a.at, Since: a.since, Refused: a.refused,
		Tries: a.tries, Endpoints: slices.Clone(a.endpoints),
	}
	if a.Pending() && !a.asking {
		s.Next = a.next
	}
	return s
}

// InForce is the accepted setting; none was, the zero value: no proxy.
func (a *Acceptance) InForce() Setting {
	if a.accepted == nil {
		return Setting{}
	}
	return *a.accepted
}
