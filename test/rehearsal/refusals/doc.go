// SPDX-License-Identifier: Apache-2.0

// Package refusals tests what an administrator reads when the cluster refuses a change of our
// MachineConfigs, and that the next run of the same command completes it.
//
// A real API server, and OpenShift's own machine-config-operator and machine-config-controller, refuse or
// accept. The pools have no nodes, so that a rollout takes seconds. A proxy in front of the API server
// answers 500 or 429 for some time.
package refusals
