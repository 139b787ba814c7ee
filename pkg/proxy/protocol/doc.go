// SPDX-License-Identifier: Apache-2.0

// Package protocol defines the messages between the controller and the proxy. The proxy
// reads bytes of the network: every event is bounded and validated before it is used.
// Both processes link it, and the prober with package upstream.
package protocol
