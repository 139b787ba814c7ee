// SPDX-License-Identifier: Apache-2.0

// Package reconcile owns the loop: wake, read, decide, apply, retry.
//
// An event only wakes the loop. What is done follows from a fresh look at the
// configuration, keepalived.conf and the kernel's addresses, and doing it
// twice changes nothing. decide is a pure function; everything around it is
// reading and applying.
package reconcile
