// SPDX-License-Identifier: Apache-2.0

// Package trace follows real packets to port 80 of the API VIPs and their replies by the
// kernel's own trace (NFT_MSG_TRACE). `http01-proxyd check` and `http01-proxyd trace` link it.
package trace
