// SPDX-License-Identifier: Apache-2.0

package report

// Preflight is the result of "oc http01 preflight": what a change of the MachineConfigs
// would do to the nodes of a pool.
type Preflight struct {
	Header

	Pool        string             `json:"pool"`
	Release     string             `json:"release,omitempty"` // of OpenShift, from the ClusterVersion
	Outcome     CheckOutcome       `json:"outcome"`
	Summary     string             `json:"summary"` // one sentence
	Findings    []PreflightFinding `json:"findings"`
	Examined    []string           `json:"examined"`    // the objects
	NotExamined []string           `json:"notExamined"` // objects that were not given, with the command that prints them
}

// PreflightFinding is a reason why a change would reboot nodes, or not arrive there.
type PreflightFinding struct {
	ID          string `json:"id"`
	Level       string `json:"level"` // problem or warning
	Message     string `json:"message"`
	Remediation string `json:"remediation"`
	// Commands show what is wrong, and then fix or limit it, when they are run on a workstation.
	Commands []string `json:"commands,omitempty"`
}
