// SPDX-License-Identifier: Apache-2.0

// Package network determines the path from this host to an address, and whether the VIPs on
// this host can be reached. `http01-proxyd check` links it.
package network
