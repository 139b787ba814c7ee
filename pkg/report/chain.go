// SPDX-License-Identifier: Apache-2.0

package report

import "time"

// ClusterCertificate is what "oc http01 certificate" found about the certificates of a name.
type ClusterCertificate struct {
	Header

	Time    time.Time    `json:"time"` // of the query: UTC, in whole seconds
	Name    string       `json:"name"` // of the API
	Outcome CheckOutcome `json:"outcome"`
	Summary string       `json:"summary"` // one sentence
	// Objects are a tree: an object belongs to the last one before it with a smaller depth.
	Objects  []ChainObject    `json:"objects"`
	Renewals []NextRenewal    `json:"renewals"`
	Findings []ClusterProblem `json:"findings"`
	// NotExamined is what could not be read, with the reason.
	NotExamined []string `json:"notExamined"`
}

// ChainObject is one object between the APIServer and the nodes.
type ChainObject struct {
	Depth     int          `json:"depth"`
	Kind      string       `json:"kind"`
	Namespace string       `json:"namespace,omitempty"`
	Name      string       `json:"name"`
	Outcome   CheckOutcome `json:"outcome,omitempty"` // ok, warning or problem; absent: it is not judged
	State     string       `json:"state"`
	Since     time.Time    `json:"since,omitzero"` // of the state, or of the object
	Reason    string       `json:"reason,omitempty"`
}

// NextRenewal is the next renewal of a Certificate, as cert-manager plans it.
type NextRenewal struct {
	Certificate string    `json:"certificate"` // namespace and name
	Time        time.Time `json:"time"`
	// Challenge is required, possible or unknown: a CA may reuse an authorization.
	Challenge string `json:"challenge"`
	Reason    string `json:"reason"`
}

// The values of NextRenewal.Challenge.
const (
	ChallengeRequired = "required"
	ChallengePossible = "possible"
	ChallengeUnknown  = "unknown"
)
