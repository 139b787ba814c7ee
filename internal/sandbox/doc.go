// SPDX-License-Identifier: Apache-2.0

// Package sandbox starts a process without capabilities, and restricts the system calls,
// files, networks and resources of the current process. The controller, every child process and check link it.
package sandbox
