// SPDX-License-Identifier: Apache-2.0

// Package unit evaluates the service's systemd unit: its state, its sandbox and SELinux.
// `http01-proxyd check` links it.
package unit
