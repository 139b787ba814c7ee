// SPDX-License-Identifier: Apache-2.0

// Package delivery owns the proof that the ways of docs/install.md work: its
// commands run as they are written, on three masters that boot, from the first
// installation to a host that is as it was before.
package delivery
