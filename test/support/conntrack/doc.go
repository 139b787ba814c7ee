// SPDX-License-Identifier: Apache-2.0

// Package conntrack fills the kernel's connection tracking table of a node. The limit
// (nf_conntrack_max) is read-only outside the first network namespace, and each namespace
// counts its own entries. So a full table of one node affects no other program.
package conntrack
