// SPDX-License-Identifier: Apache-2.0

// Package expiry decides what to log about the certificates that the API server presents:
// how close their expiry is relative to their lifetime, and whether they were renewed. From
// ended challenges it decides which attempts to renew them have failed. It does no I/O. The
// controller links it.
package expiry
