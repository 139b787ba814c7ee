// SPDX-License-Identifier: Apache-2.0

// Package sockopt bounds the kernel's buffers of a connection, and its wait for the peer.
// The controller, the proxy and the prober link it.
package sockopt
