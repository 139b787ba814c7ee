// SPDX-License-Identifier: Apache-2.0

// Package arm64 runs the service's seccomp tests in an emulated arm64 machine. The numbers
// of system calls and the order of their arguments differ between architectures.
package arm64
