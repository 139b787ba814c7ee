// SPDX-License-Identifier: Apache-2.0

// Package network determines the path from this host to an address, and the hosts that
// have a VIP. `http01-proxyd check` links it.
package network
