// SPDX-License-Identifier: Apache-2.0

// Package mailbox passes values between the goroutines of the controller. A sender never waits:
// a receiver gets the latest value, or learns that something changed. The controller links it.
package mailbox
