// SPDX-License-Identifier: Apache-2.0

// Package nodeagent runs cert-manager's solver for each solver Pod on one node of a lab.
//
// It does the work of four parts of a cluster for these Pods:
//
//   - the scheduler: each Pod is bound to the node,
//   - the kubelet: the container's process starts, the status of the Pod is reported, and a
//     deleted Pod is removed after its process has ended,
//   - the container network: the process is in the node's network namespace,
//   - the controller for EndpointSlices: each Service of a solver gets a slice with its
//     ready Pods.
//
// It leaves out images, volumes, resources, probes (cert-manager's Pod has none), restarts
// of a container, and the grace period. A Pod has the address of the node and its own port
// instead of an address of its own. The EndpointSlice therefore has that port instead of
// 8089. Network policies have no effect. [HoldAnnotation] delays the start of a container.
package nodeagent
