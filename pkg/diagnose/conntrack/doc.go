// SPDX-License-Identifier: Apache-2.0

// Package conntrack evaluates the kernel's connection tracking table. `http01-proxyd
// check` links it.
package conntrack
