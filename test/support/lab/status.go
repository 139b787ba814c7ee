// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"
)

// Status is the output of `http01-proxyd status -o json`. Operators' scripts read this
// format, so it is declared here a second time to detect changes.
type Status struct {
	Version    string      `json:"version"`
	Conditions []Condition `json:"conditions"`
	VIPs       []VIP       `json:"vips"`
	Table      Table       `json:"table"`
	Upstreams  []Upstream  `json:"upstreams"`
	Challenges Challenges  `json:"challenges"`
	Config     Config      `json:"config"`
	Hosts      Hosts       `json:"acceptedHosts"`
	Egress     EgressProxy `json:"egressProxy"`
	SelfTests  []SelfTest  `json:"selfTests"`
	VIPTests   []VIPTest   `json:"vipTests"`
	Instance   string      `json:"instance"`

	TestRequests TestRequests `json:"testRequests"`

	Events  Events  `json:"events"`
	Metrics Metrics `json:"metrics"`
}

// Metrics is the state of the exporter.
type Metrics struct {
	Address string `json:"address"`
	Served  bool   `json:"served"`
}

// SelfTest is the result of the last self-test of an API VIP.
type SelfTest struct {
	VIP   string `json:"vip"`
	OK    bool   `json:"ok"`
	Cause string `json:"cause"`
}

// VIPTest is the result of the last test request to an API VIP of another host.
type VIPTest struct {
	VIP      string `json:"vip"`
	Result   string `json:"result"`
	Instance string `json:"instance"`
	Cause    string `json:"cause"`
}

// TestRequests are the test requests of other hosts.
type TestRequests struct {
	Total   int          `json:"total"`
	Sources []TestSource `json:"sources"`
	Others  int          `json:"others"`
}

// TestSource is a host that sent test requests.
type TestSource struct {
	Address netip.Addr `json:"address"`
	Count   int        `json:"count"`
}

// Events are what happened since the start.
type Events struct {
	LastRuleDelay float64 `json:"lastRuleDelayMicroseconds"` // from the kernel's event to the committed table
}

// readyCondition is the type of the condition for the service's readiness.
const readyCondition = "HTTP01ChallengeProxyReady"

// Condition returns the condition for the service's readiness.
func (s Status) Condition() Condition { return s.ConditionOf(readyCondition) }

// ConditionOf returns the condition of a type, or the zero value unless there is exactly
// one.
func (s Status) ConditionOf(kind string) Condition {
	var found []Condition
	for _, c := range s.Conditions {
		if c.Type == kind {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		return Condition{}
	}
	return found[0]
}

// Condition looks like Kubernetes' metav1.Condition.
type Condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

// VIP is one API VIP and its state.
type VIP struct {
	Address    string    `json:"address"`
	Family     string    `json:"family"`
	State      string    `json:"state"`
	Management string    `json:"management"`
	Since      time.Time `json:"since"`
}

// Table is the nftables table in the kernel.
type Table struct {
	Present  bool     `json:"present"`
	Port     int      `json:"port"`
	Elements []string `json:"elements"`
}

// Upstream is one ingress address.
type Upstream struct {
	Address   string `json:"address"`
	Reachable bool   `json:"reachable"`
	Error     string `json:"error"`
}

// Challenges holds the recent challenges and counters.
type Challenges struct {
	Total    int            `json:"total"`
	Rejected map[string]int `json:"rejected"`
	Recent   []Challenge    `json:"recent"`
}

// Challenge is one completed challenge.
type Challenge struct {
	Time        time.Time `json:"time"`
	ClientKind  string    `json:"clientKind"`
	VIP         string    `json:"vip"`
	Client      string    `json:"client"`
	Method      string    `json:"method"`
	Host        string    `json:"host"`
	TokenPrefix string    `json:"tokenPrefix"`
	Status      int       `json:"status"`
	Upstream    string    `json:"upstream"`
	Cause       string    `json:"cause"`
	Detail      string    `json:"detail"`
}

// Config is the source of the active configuration.
type Config struct {
	Source string `json:"source"`
	Error  string `json:"error"`
}

// Hosts are the names for which challenges are accepted.
type Hosts struct {
	Names  []string `json:"names"`
	Source string   `json:"source"`
	Path   string   `json:"path"`
	Note   string   `json:"note"`
}

// EgressProxy is the active egress proxy.
type EgressProxy struct {
	Through []EgressThrough `json:"routes"`
}

// EgressThrough is an ingress address that is reached through a proxy.
type EgressThrough struct {
	Ingress   string   `json:"ingress"`
	Proxy     string   `json:"proxy"`
	Addresses []string `json:"addresses"`
}

// ParseStatus parses the output of the status command.
func ParseStatus(text string) (Status, error) {
	var s Status
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("read the status: %w: %.300s", err, text)
	}
	return s, nil
}

// VIPState returns the state of one VIP, or "" when it is not listed.
func (s Status) VIPState(address string) string {
	for _, v := range s.VIPs {
		if v.Address == address {
			return v.State
		}
	}
	return ""
}
