// SPDX-License-Identifier: Apache-2.0

// Package tracker owns the current state of the service: every part reports its state to
// the Tracker, which derives the conditions and returns reports. The controller links it.
package tracker
