// SPDX-License-Identifier: Apache-2.0

package report

import "time"

// Verification is the result of "oc http01 verify": the facts that only a real cluster can
// settle.
type Verification struct {
	Header

	Time      time.Time      `json:"time"`      // of the verification: UTC, in whole seconds
	Tool      string         `json:"tool"`      // version of oc-http01
	OpenShift string         `json:"openShift"` // release, or why it is unknown
	Outcome   string         `json:"outcome"`   // the worst: different, not determined, or as expected
	Nodes     []VerifiedNode `json:"nodes"`
	Facts     []VerifiedFact `json:"facts"`
}

// VerifiedNode is a node on which the commands ran.
type VerifiedNode struct {
	Name     string `json:"name"`
	System   string `json:"system,omitempty"`  // operating system
	Version  string `json:"version,omitempty"` // of the service
	State    Reason `json:"state,omitempty"`   // of the service; empty: it has not answered
	HoldsVIP bool   `json:"holdsVIP"`
	Layered  bool   `json:"layered"`           // the operating system image contains the binary
	Problem  string `json:"problem,omitempty"` // why there are no outputs
}

// VerifiedFact is a fact with its results on the nodes, or in the cluster.
type VerifiedFact struct {
	ID          string           `json:"id"`
	Title       string           `json:"title"`
	Expected    string           `json:"expected"`
	Remediation string           `json:"remediation"` // about another output
	Results     []VerifiedOutput `json:"results"`
}

// VerifiedOutput is the result of one command.
type VerifiedOutput struct {
	Where   string   `json:"where"`   // the node, or cluster
	Outcome string   `json:"outcome"` // as expected, different, not determined, or not applicable
	Command string   `json:"command"`
	Output  []string `json:"output"` // the first lines
}
