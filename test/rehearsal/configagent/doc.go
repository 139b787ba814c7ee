// SPDX-License-Identifier: Apache-2.0

// Package configagent does what OpenShift's operators do with the objects of docs/tutorial.md:
//
// It does the work of two operators:
//
//   - machine-config-operator: it activates the node disruption policy, and rolls
//     MachineConfigs out to the pool of the control-plane nodes. The caller installs the
//     service on the nodes.
//   - kube-apiserver-operator: the API servers present the certificate of the first entry of
//     namedCertificates.
//
// It leaves out the rendered configuration, drains, actions of the policy, other pools, the
// removal of MachineConfigs, and the progress of kube-apiserver's ClusterOperator.
// test/support/mcd and test/support/host test these on hosts that boot. Kubernetes' API server
// validates the objects with the CRDs of OpenShift's API module.
package configagent
