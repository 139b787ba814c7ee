// SPDX-License-Identifier: Apache-2.0

// Package nodeagent runs cert-manager's solver for each solver Pod on one node of a lab. For
// these Pods it does the work of four parts of a cluster:
//
//   - the scheduler: it binds each Pod to the node,
//   - the kubelet: it starts the container's process, reports the status of the Pod, and removes
//     a deleted Pod after its process ended,
//   - the container network: the process is in the node's network namespace,
//   - the controller for EndpointSlices: the ready Pods of each solver's Service get a slice.
//
// It leaves out images, volumes, resources, probes (cert-manager's Pod uses none), restarts of a
// container, and the grace period. A Pod uses the address of the node with a separate port, which
// the EndpointSlice names instead of 8089. Network policies are ignored. [HoldAnnotation] delays
// the start of a container.
package nodeagent
