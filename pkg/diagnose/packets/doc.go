// SPDX-License-Identifier: Apache-2.0

// Package packets evaluates the packets that the kernel's trace showed on their way to
// port 80 of the API VIPs and back. `http01-proxyd check` links it.
package packets
