// SPDX-License-Identifier: Apache-2.0

// Package matrix lists what a child process of the service can do on a booted host, layer
// by layer of its sandbox. The document docs/internals/sandbox-matrix.md is generated from
// it, and TestSandboxMatrix (test/support/host) measures it.
package matrix
