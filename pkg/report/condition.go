// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
)

// ConditionType is the type of the condition of the whole service.
const ConditionType = "HTTP01ChallengeProxyReady"

// Reason is the state of the service in one word. The set of values is fixed.
type Reason string

// The reasons with which the condition is True.
const (
	Serving     Reason = "Serving"     // this host holds an API VIP and answered its own request to it
	Standby     Reason = "Standby"     // this host holds no API VIP
	NotRequired Reason = "NotRequired" // API and ingress share one address, or there are no VIPs on this platform
)

// The reasons with which it is False.
const (
	// the first observation of the host is not complete yet, or no held VIP answered since the
	// end of a fault
	Starting Reason = "Starting"
	// the configuration is rejected; the last good one is active, if any
	InvalidConfig Reason = "InvalidConfig"
	// keepalived.conf is missing although keepalived runs here, is unreadable, or contains no
	// VIPs
	NoVIPs Reason = "NoVIPs"
	// the VIPs are user-managed and never on a node
	ExternalLoadBalancer Reason = "ExternalLoadBalancer"
	// the table cannot be applied
	NftablesUnavailable Reason = "NftablesUnavailable"
	// another process listens on the internal port
	PortInUse Reason = "PortInUse"
	// no ingress address accepts connections
	UpstreamUnreachable Reason = "UpstreamUnreachable"
	// the proxy process ended or does not answer
	ProxyUnavailable Reason = "ProxyUnavailable"
	// mode is ""
	Disabled Reason = "Disabled"
)

// The reasons with which it is Unknown.
const (
	NotRunning   Reason = "NotRunning"   // no process listens on the status socket
	NotReachable Reason = "NotReachable" // the service does not answer on its socket, or the host does not answer
)

// ErrNotRunning means that no process listens on the status socket.
var ErrNotRunning = errors.New("no process listens on the status socket")

// Ready reports whether the condition is True with this reason.
func (r Reason) Ready() bool {
	return r == Serving || r == Standby || r == NotRequired
}

// Expected reports whether somebody chose a state in which the service is not ready, or the state
// ends by itself.
func (r Reason) Expected() bool {
	return r == Starting || r == Disabled || r == ExternalLoadBalancer
}

// Condition has the form of metav1.Condition of Kubernetes, without
// observedGeneration.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"` // "True", "False" or "Unknown"
	Reason  Reason `json:"reason"`
	Message string `json:"message"` // at most MaxMessage bytes
	// when Status last changed: UTC, in whole seconds as in Kubernetes
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

// MaxMessage is the limit of Kubernetes for the message of a condition.
const MaxMessage = 32 << 10

// Condition returns the condition of the whole service. Its status is Unknown if the report
// contains none.
func (r Report) Condition() Condition {
	for _, c := range r.Conditions {
		if c.Type == ConditionType {
			return c
		}
	}
	return Condition{Type: ConditionType, Status: "Unknown"}
}

// ServiceUnreachable returns the report for a service that did not answer since then.
func ServiceUnreachable(since time.Time, err error) Report {
	reason := NotReachable
	if errors.Is(err, ErrNotRunning) {
		reason = NotRunning
	}
	return Report{StateSince: since.UTC().Truncate(time.Second), Conditions: []Condition{{
		Type: ConditionType, Status: "Unknown", Reason: reason, Message: printable.Truncate(err.Error(), MaxMessage),
		LastTransitionTime: since.UTC().Truncate(time.Second),
	}}}.WithEmptyLists()
}

// Next returns the condition with a new status, reason and message. LastTransitionTime
// changes with the status only.
func (c Condition) Next(ready bool, reason Reason, message string, now time.Time) Condition {
	next := Condition{
		Type: c.Type, Status: "False", Reason: reason, Message: printable.Truncate(message, MaxMessage),
		LastTransitionTime: c.LastTransitionTime,
	}
	if ready {
		next.Status = "True"
	}
	if next.Status != c.Status {
		next.LastTransitionTime = now.UTC().Truncate(time.Second)
	}
	return next
}
