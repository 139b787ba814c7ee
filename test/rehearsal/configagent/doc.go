// SPDX-License-Identifier: Apache-2.0

// Package configagent does what OpenShift's operators do with the objects of docs/tutorial.md:
//
// It does the work of two operators:
//
//   - machine-config-operator: it activates the node disruption policy, renders the MachineConfigs
//     of the pool of the control-plane nodes, and rolls each new configuration out. The operator's
//     own code merges the policy and renders (test/support/oracle). The caller installs the
//     service on the nodes.
//   - kube-apiserver-operator: the API servers present the certificate of the entry of
//     namedCertificates for the API's name. An entry that the operator rejects changes nothing.
//
// It leaves out the MachineConfigs of the platform, drains, actions of the policy, other pools, the
// removal of the last MachineConfig, and the progress of kube-apiserver's ClusterOperator.
// test/rehearsal/openshift tests these on hosts that boot. Kubernetes' API server validates the objects
// with the CRDs of OpenShift's API module.
package configagent
