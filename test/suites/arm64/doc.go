// SPDX-License-Identifier: Apache-2.0

// Package arm64 runs the service's own tests of the system-call filter in an emulated
// arm64 machine: the numbers of the calls, and the order of their arguments, differ
// between architectures.
package arm64
