// SPDX-License-Identifier: Apache-2.0

// Package printable makes text of other programs and of the network safe to print. Every
// process links it.
package printable
