// SPDX-License-Identifier: Apache-2.0

// Package prober starts the prober process and sends it requests about the network. It also
// sends the packets that require a capability; the process parses the replies. The
// controller and check link it.
package prober
