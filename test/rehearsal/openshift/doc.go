// SPDX-License-Identifier: Apache-2.0

// Package openshift runs OpenShift's own machine-config-operator, machine-config-controller and
// machine-config-daemon. The operator and the controller run beside a real API server, and the daemon
// runs on three control-plane hosts that boot. The tests run the commands of the documentation there.
//
// These are builds of development snapshots, because no release is served as a Go module. Other parts
// of OpenShift are missing:
//
//   - The hosts run Debian. Without CoreOS, the daemon skips rpm-ostree and kernel arguments.
//   - [kubelet] reports that a node is ready, and ends Pods that were evicted. No container starts.
//   - No image is built. The build of a MachineOSConfig is reported as successful.
//   - The units of OpenShift, such as kubelet.service, are written and enabled, but a drop-in prevents them
//     from starting.
//   - etcd and kube-apiserver run outside the hosts, and therefore continue during a reboot.
package openshift
