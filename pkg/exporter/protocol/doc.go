// SPDX-License-Identifier: Apache-2.0

// Package protocol defines the messages between the controller and the exporter. Both
// link it.
package protocol
