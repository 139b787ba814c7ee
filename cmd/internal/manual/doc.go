// SPDX-License-Identifier: Apache-2.0

// Package manual generates man pages and the reference of the command lines. Only the
// builds with the tag docs, and tests, link it.
package manual
