// SPDX-License-Identifier: Apache-2.0

// Package discovery finds the VIPs of this host like the service does, once. `http01-proxyd
// check` links it.
package discovery
