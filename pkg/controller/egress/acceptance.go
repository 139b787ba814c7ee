// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// The delays between two attempts for a setting that is not accepted yet, and between two lookups
// of a name that cannot be resolved. They double.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

func retryDelay(failures int) time.Duration { return min(firstRetry<<min(failures, 10), lastRetry) }

// acceptance separates the requested from the accepted configuration, as spec and status of
// OpenShift's Proxy do: only an accepted configuration is used. The zero value contains no
// configuration.
type acceptance struct {
	spec      *egress.Configuration // nil: none, or rejected
	specSince time.Time             // of spec or rejection
	rejection error
	endpoints []report.EgressEndpoint // results for spec
	failures  int                     // attempts that failed
	nextProbe time.Time

	accepted   *egress.Configuration // nil: none
	acceptedAt time.Time
}

// request sets the requested configuration, and reports whether the accepted one changed. A
// configuration without a proxy or without endpoints is accepted immediately: OpenShift's
// cluster-network-operator validates neither (Reconcile of
// pkg/controller/proxyconfig/controller.go). An endpoint that answers without a proxy would prove
// nothing.
func (a *acceptance) request(s egress.Configuration, now time.Time) (changed bool) {
	known := a.spec != nil && a.spec.Equal(s)
	isAccepted := a.accepted != nil && a.accepted.Equal(s)
	changed = isAccepted && a.accepted.Settings.Source != s.Settings.Source
	if known {
		*a.spec = s
	} else {
		a.spec, a.rejection, a.specSince = &s, nil, now
		a.failures, a.nextProbe = 0, now
		a.endpoints = make([]report.EgressEndpoint, len(s.Endpoints))
		for i, url := range s.Endpoints {
			a.endpoints[i].URL = redactURL(url)
			if isAccepted {
				a.endpoints[i].OK, a.endpoints[i].Checked = true, a.acceptedAt
			}
		}
	}
	if isAccepted {
		a.accepted = a.spec
	} else if s.Settings.IsEmpty() || len(s.Endpoints) == 0 {
		a.accept(now)
		changed = true
	}
	return changed
}

// reject records that the requested configuration is invalid. The accepted one is kept.
func (a *acceptance) reject(reason error, now time.Time) {
	if a.rejection == nil || a.rejection.Error() != reason.Error() {
		a.specSince = now
	}
	a.spec, a.rejection, a.endpoints = nil, reason, nil
}

func (a *acceptance) accept(now time.Time) {
	a.accepted, a.acceptedAt = a.spec, now
}

// pending reports whether a configuration waits for its acceptance.
func (a *acceptance) pending() bool {
	return a.spec != nil && (a.accepted == nil || !a.accepted.Equal(*a.spec))
}

// recordProbe takes the results of the endpoints of a configuration in their order: the reason of a
// failure, or "". It reports whether the configuration is accepted now.
func (a *acceptance) recordProbe(spec *egress.Configuration, failures []string, now time.Time) (accepted bool) {
	if spec != a.spec || !a.pending() {
		return false // a result for an earlier spec
	}
	all := true
	for i, reason := range failures {
		e := &a.endpoints[i]
		e.OK, e.Error, e.Checked = reason == "", reason, now
		all = all && e.OK
	}
	if all {
		a.accept(now)
		return true
	}
	a.nextProbe = now.Add(retryDelay(a.failures))
	a.failures++
	return false
}

// effective returns the accepted configuration. The zero value means no proxy.
func (a *acceptance) effective() egress.Configuration {
	if a.accepted == nil {
		return egress.Configuration{}
	}
	return *a.accepted
}
