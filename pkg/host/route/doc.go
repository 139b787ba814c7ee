// SPDX-License-Identifier: Apache-2.0

// Package route asks the kernel's tables which way packets of this host take to
// an address, and which neighbours it knows. Nothing is sent.
package route
