// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/json"
	"fmt"
	"time"
)

// Status is what `http01-proxyd status -o json` prints: the shape that scripts
// of operators read, written down here a second time so that a change of it
// is seen.
type Status struct {
	Version    string      `json:"version"`
	Conditions []Condition `json:"conditions"`
	VIPs       []VIP       `json:"vips"`
	Table      Table       `json:"table"`
	Upstreams  []Upstream  `json:"upstreams"`
	Challenges Challenges  `json:"challenges"`
	Config     Config      `json:"config"`
	Egress     EgressProxy `json:"egressProxy"`
}

// readyCondition is the type of the condition that says whether the service does its
// work.
const readyCondition = "HTTP01ChallengeProxyReady"

// Condition is the one that says whether the service does its work.
func (s Status) Condition() Condition { return s.ConditionOf(readyCondition) }

// ConditionOf is the condition of a type; the zero value where there is none, or
// more than one.
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

// Condition has the shape of Kubernetes' metav1.Condition.
type Condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

// VIP is one API VIP and where it is.
type VIP struct {
	Address string    `json:"address"`
	Family  string    `json:"family"`
	State   string    `json:"state"`
	Since   time.Time `json:"since"`
}

// Table is the nftables table as the kernel has it.
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

// Challenges are the last ones and how many there were.
type Challenges struct {
	Total   int            `json:"total"`
	Refused map[string]int `json:"refused"`
	Recent  []Challenge    `json:"recent"`
}

// Challenge is one challenge as the service saw it end.
type Challenge struct {
	VIP         string `json:"vip"`
	Client      string `json:"client"`
	Method      string `json:"method"`
	Host        string `json:"host"`
	TokenPrefix string `json:"tokenPrefix"`
	Status      int    `json:"status"`
	Upstream    string `json:"upstream"`
	Cause       string `json:"cause"`
	Detail      string `json:"detail"`
}

// Config says which configuration is in force.
type Config struct {
	Source string `json:"source"`
	Error  string `json:"error"`
}

// EgressProxy is what of the egress proxy is in force.
type EgressProxy struct {
	Through []EgressThrough `json:"routes"`
}

// EgressThrough is an ingress address that is reached through a proxy.
type EgressThrough struct {
	Ingress   string   `json:"ingress"`
	Proxy     string   `json:"proxy"`
	Addresses []string `json:"addresses"`
}

// ParseStatus reads what the status command printed.
func ParseStatus(text string) (Status, error) {
	var s Status
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("read the status: %w: %.300s", err, text)
	}
	return s, nil
}

// VIPState is the state of one VIP; empty when it is not listed.
func (s Status) VIPState(address string) string {
	for _, v := range s.VIPs {
		if v.Address == address {
			return v.State
		}
	}
	return ""
}
