// SPDX-License-Identifier: Apache-2.0

package report

import (
	"net/netip"
	"time"
)

// ClusterCondition is the condition of the service on all nodes.
type ClusterCondition struct {
	Header
	Condition
}

// ClusterStatus is the status of the service on all nodes.
type ClusterStatus struct {
	Header

	Time      time.Time        `json:"time"` // of the query: UTC, in whole seconds
	Condition Condition        `json:"condition"`
	VIPs      []ClusterVIP     `json:"vips"`
	Nodes     []NodeStatus     `json:"nodes"`
	Problems  []ClusterProblem `json:"problems"`
}

// ClusterVIP is an API VIP that a node must hold.
type ClusterVIP struct {
	Address netip.Addr `json:"address"`
	Family  string     `json:"family"` // IPv4 or IPv6
	Holders []string   `json:"holders"`
	// Management is BGP if several nodes hold the VIP at once, and empty if one node does.
	Management string `json:"management,omitempty"`
	// Since is when the VIP came to its last holder, or left it.
	Since time.Time `json:"since,omitzero"`
	// ReachableFrom are the nodes whose last test of port 80 of the VIP was answered, and
	// UnreachableFrom those with the finding vip-unreachable-from-here. Tested is the time of
	// the last test.
	ReachableFrom   []string  `json:"reachableFrom"`
	UnreachableFrom []string  `json:"unreachableFrom"`
	Tested          time.Time `json:"tested,omitzero"`
}

// Healthy reports whether the number of holders is right.
func (v ClusterVIP) Healthy() bool {
	return len(v.Holders) == 1 || len(v.Holders) > 1 && v.Management == ManagementBGP
}

// NodeStatus is the status of the service on one node.
type NodeStatus struct {
	Name     string `json:"name"`
	Reported bool   `json:"reported"`
	Version  string `json:"version,omitempty"`
	// Condition is Unknown if the node has not reported: NotRunning if its service is stopped, otherwise
	// NotReachable.
	Condition Condition `json:"condition"`
	// StateSince is when the reason of the condition last changed; absent for older releases.
	StateSince time.Time `json:"stateSince,omitzero"`
	VIPs       []VIP     `json:"vips"`
}

// ClusterProblem is a problem of the cluster, or a finding of a check on its nodes.
type ClusterProblem struct {
	ID          string   `json:"id"`
	Level       string   `json:"level"`           // problem or warning
	Check       string   `json:"check,omitempty"` // that has detected it on the nodes
	Message     string   `json:"message"`
	Remediation string   `json:"remediation"`
	Nodes       []string `json:"nodes"`
	// Commands fix the fault, or limit it, when they are run on a workstation as they are.
	Commands []string `json:"commands,omitempty"`
	// Sources are the hosts whose packets showed the fault.
	Sources []netip.Addr `json:"sources,omitempty"`
}

// The levels of a problem.
const (
	LevelProblem = "problem"
	LevelWarning = "warning"
)

// ClusterCheck is the result of a check on all nodes.
type ClusterCheck struct {
	Header

	Time     time.Time        `json:"time"` // of the check: UTC, in whole seconds
	Outcome  CheckOutcome     `json:"outcome"`
	Summary  string           `json:"summary"` // one sentence
	Nodes    []NodeCheck      `json:"nodes"`
	Findings []ClusterProblem `json:"findings"` // equal findings of several nodes are one
	// NotExamined is what could not be read about the API's Certificate, with the reason.
	NotExamined []string `json:"notExamined"`
	// StartMs is the time until the checks ran on all nodes, DurationMs that of the checks, in
	// milliseconds. StartMs is 0 if the checks were not coordinated.
	StartMs    float64 `json:"startMs"`
	DurationMs float64 `json:"durationMs"`
}

// ClusterTrace is what `http01-proxyd trace` observed on the nodes that hold an API VIP.
type ClusterTrace struct {
	Header

	Time  time.Time   `json:"time"` // of the end: UTC, in whole seconds
	Nodes []NodeTrace `json:"nodes"`
}

// NodeTrace is the trace of one node.
type NodeTrace struct {
	Name        string `json:"name"`
	Problem     string `json:"problem,omitempty"`     // why there is no trace
	Remediation string `json:"remediation,omitempty"` // a sentence about the problem
	Trace       *Trace `json:"trace,omitempty"`
}

// NodeCheck is the result of the check on one node.
type NodeCheck struct {
	Name       string       `json:"name"`
	Reported   bool         `json:"reported"`
	Outcome    CheckOutcome `json:"outcome,omitempty"`
	Message    string       `json:"message"`    // the summary of the node, or why it has not reported
	NotChecked []string     `json:"notChecked"` // checks that could not run, or not completely, with the reason
	// Checks are the results of all checks on the node, in their order.
	Checks []CheckResult `json:"checks"`
}

// CheckResult is the result of one check on one node.
type CheckResult struct {
	Name    string       `json:"name"`
	Outcome CheckOutcome `json:"outcome"`        // ok, warning, problem or skipped; empty: another one
	Text    string       `json:"text,omitempty"` // what works, or why the check was skipped
}
