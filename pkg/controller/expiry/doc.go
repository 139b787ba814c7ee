// SPDX-License-Identifier: Apache-2.0

// Package expiry reads the certificates that the API server presents and decides what to log
// about them: how close their expiry is relative to their lifetime, and whether they were
// renewed. From the challenges that ended it decides which attempts to renew them failed. The
// controller links it; a prober process reads the certificates.
package expiry
