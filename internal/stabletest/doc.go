// SPDX-License-Identifier: Apache-2.0

// Package stabletest compares what other programs depend on with docs/reference/stable, so that a
// change is deliberate. Only tests link it.
package stabletest
