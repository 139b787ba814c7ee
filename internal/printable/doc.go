// SPDX-License-Identifier: Apache-2.0

// Package printable makes text of other programs and of the network safe to print, and
// names address families. Every process links it.
package printable
