// SPDX-License-Identifier: Apache-2.0

// Package socketowner finds out which process, systemd unit or pod owns a socket. The
// controller and `check` link it.
//
// The result depends on the privileges of the caller. A process that may read the descriptors
// of other processes finds the process itself. The sandboxed service may not. But the kernel
// reports the cgroup in which a socket was created to every process. On a systemd host the
// cgroup is the unit, or the container and its pod.
package socketowner
