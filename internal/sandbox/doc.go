// SPDX-License-Identifier: Apache-2.0

// Package sandbox starts a process that has no capability, and lets a process
// give up the system calls that it does not need.
package sandbox
