// SPDX-License-Identifier: Apache-2.0

// Package protocol defines the messages between the prober process and the process that
// started it. The controller, check and the prober process link it.
package protocol
