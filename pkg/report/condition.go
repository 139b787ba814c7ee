// SPDX-License-Identifier: Apache-2.0

package report

import (
	"net/netip"
	"time"
)

// ConditionType is the type of the condition that sums everything up.
const ConditionType = "HTTP01ChallengeProxyReady"

// Reason says in one word what state the service is in. The set is fixed.
type Reason string

// The reasons with which the condition is True.
const (
	Serving     Reason = "Serving"     // this host holds an API VIP and answers on it, a request of its own too
	Standby     Reason = "Standby"     // no API VIP is on this host
	NotRequired Reason = "NotRequired" // API and ingress share one address, or the platform has no Answered
)

// The reasons with which it is False.
const (
	Starting             Reason = "Starting"             // the first look at the host is not over yet
	InvalidConfig        Reason = "InvalidConfig"        // the configuration is refused; the last good one is in force, if any
	NoVIPs               Reason = "NoVIPs"               // keepalived.conf is absent, although keepalived runs here, or unreadable, or gives no Answered
	ExternalLoadBalancer Reason = "ExternalLoadBalancer" // the Answered are user-managed and never on a node
	NftablesUnavailable  Reason = "NftablesUnavailable"  // the table cannot be put into the kernel
	PortInUse            Reason = "PortInUse"            // another process listens on the internal port
	UpstreamUnreachable  Reason = "UpstreamUnreachable"  // no ingress address takes connections
	ProxyUnavailable     Reason = "GateUnavailable"      // the process that answers the clients has ended, and no other is well yet; or it does not answer
	Disabled             Reason = "Disabled"             // mode is ""
)

// NotReachable is the one reason with which it is Unknown.
const NotReachable Reason = "NotReachable" // the service does not answer on its socket

// Ready reports whether the condition is True with this reason.
func (r Reason) Ready() bool {
	return r == Serving || r == Standby || r == NotRequired
}

// Condition has the shape of Kubernetes' metav1.Condition, without the
// generation of an object: there is none.
type Condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"` // "True", "False" or "Unknown"
	Reason             Reason    `json:"reason"`
	Message            string    `json:"message"`            // at most maxMessage bytes
	LastTransitionTime time.Time `json:"lastTransitionTime"` // when Status last changed: UTC, in whole seconds as in Kubernetes
}

// maxMessage is how long Kubernetes lets a condition's message be.
const maxMessage = 32 << 10

// Condition returns the condition that sums everything up. A report that
// was never filled knows nothing.
func (r Report) Condition() Condition {
	for _, c := range r.Conditions {
		if c.Type == ConditionType {
			return c
		}
	}
	return Condition{Type: ConditionType, Status: "Unknown"}
}

// ServiceUnreachable is the report on a service that has not answered since then.
func ServiceUnreachable(since time.Time, err error) Report {
	return Report{
		Conditions: []Condition{{
			Type: ConditionType, Status: "Unknown", Reason: NotReachable, Message: truncateBytes(err.Error(), maxMessage),
			LastTransitionTime: since.UTC().Truncate(time.Second),
		}},
		VIPs: []VIP{}, Upstreams: []Upstream{}, Certificates: []Certificate{},
		Trust: Trust{}.withEmptyLists(), EgressProxy: EgressProxy{}.withEmptyLists(),
		Table:      Table{Elements: []netip.Addr{}, Counters: []Counter{}},
		Challenges: Challenges{Refused: map[Refusal]uint64{}, Recent: []RecentChallenge{}},
	}
}

// withReason returns the condition after a look that found reason and message.
func (c Condition) withReason(reason Reason, message string, now time.Time) Condition {
	c.Type = ConditionType
	return c.withReadiness(reason.Ready(), reason, message, now)
}

// withReadiness returns the condition with these in place of what it said.
func (c Condition) withReadiness(ready bool, reason Reason, message string, now time.Time) Condition {
	next := Condition{
		Type: c.Type, Status: "False", Reason: reason, Message: truncateBytes(message, maxMessage),
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
