// SPDX-License-Identifier: Apache-2.0

// Package oracle asks OpenShift's machine-config-operator what it does with the objects of a
// cluster. The operator's own functions answer, in the program test/openshift/oracle: the
// MachineConfigs of a platform, the rendered configuration of a pool, and the active node
// disruption policy. They need no cluster.
package oracle
