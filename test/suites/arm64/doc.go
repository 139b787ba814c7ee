// SPDX-License-Identifier: Apache-2.0

// Package arm64 runs the service in an emulated arm64 machine: the tests of its sandbox, and
// certificates in a lab with a failover and a restart. The numbers of system calls and the
// order of their arguments differ between architectures.
package arm64
