// SPDX-License-Identifier: Apache-2.0

// Package socketowner owns the answer to "who holds this socket?".
//
// What may be known depends on who asks. A process that may look at the
// others' descriptors finds the process itself. The service in its sandbox may
// not; but the kernel tells everybody in which cgroup a socket was made, and
// on a host that systemd runs the cgroup is the unit, or the container and its
// pod.
package socketowner
