// SPDX-License-Identifier: Apache-2.0

// Package prober starts the prober process and sends it requests about the network. It also
// sends the echo requests that require a capability. The controller and check link it.
package prober
