// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package simulator determines what the nftables rulesets of a host do with a packet.
// It reads the tables of all owners and follows the packet through their chains, and
// changes nothing. `http01-proxyd check` links it.
//
// The result has three values. The known fields of the packet decide most rules for
// certain. Other rules depend on the client, or on expressions that are not simulated
// (xt matches, rates, marks). Their effect is possible, with the reason for the
// uncertainty.
package simulator
