// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package simulator finds out what a host's nftables rulesets do with a packet: it
// reads the tables of all, ours and others', and follows the packet through their
// chains. It changes nothing.
//
// The answer has three values. What is known of the packet decides most rules for
// sure. Others rest on who the client is, or on expressions that are not looked
// into (xt matches, rates, marks): what they do is possible, and says why it is not
// certain.
package simulator
